"""Values of the records of a batch in slots, one slot for each field that is read, as compiled readers fill them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.policy import ITEMS
from crenel.operators.encode.slices import gather

Path = tuple[str, ...]
"""Names of records and of the field inside them; a step from an array to its items ends with ``ITEMS``."""


@dataclass(frozen=True)
class SlotLayout:
    """Slots of some fields.

    Slots from 0 on have one value for each record; the slot of an array says where its items are. Slots from
    ``of_records`` on are item slots, with one value for each item.

    Attributes
    ----------
    paths : path of each field, in any order; a field of the items of an array has one step that ends with ``ITEMS``
    """

    paths: tuple[Path, ...]

    @cached_property
    def arrays(self) -> tuple[Path, ...]:
        """Path of each array; its number is its slot too."""
        return tuple(dict.fromkeys(array for path in self.paths if (array := array_of(path)) is not None))

    @cached_property
    def slots(self) -> dict[Path, int]:
        """Slot of each field."""
        plain = dict.fromkeys(path for path in self.paths if array_of(path) is None)
        inner = (path for array in self.arrays for path in dict.fromkeys(self.paths) if array_of(path) == array)
        return {path: number for number, path in enumerate((*plain, *inner), len(self.arrays))}

    @property
    def of_records(self) -> int:
        """Number of slots with a value for each record."""
        return len(self.arrays) + sum(array_of(path) is None for path in self.slots)

    def array_slot(self, path: Path) -> int:
        """Return the slot of the array whose items a path goes into."""
        return self.arrays.index(array_of(path) or ())

    @cached_property
    def item_slots(self) -> NDArray[np.int64]:
        """(arrays, 2) the first item slot of each array, and the one behind its last."""
        of = [[slot for path, slot in self.slots.items() if array_of(path) == array] for array in self.arrays]
        return np.array([(slots[0], slots[-1] + 1) for slots in of], np.int64).reshape(-1, 2)


class BatchSlots(NamedTuple):
    """Values of the records of a batch.

    Attributes
    ----------
    data : (bytes,) all records
    found : (slots, records) whether a slot has a value
    value : (slots, records) a whole number, 0 or 1, the number of a symbol, the bits of a float64, the position of
        bytes in ``data``, or the position of an array's first item; undefined where there is none
    length : (slots, records) number of bytes or items
    item_found, item_value, item_length : (item slots, items) the same for the items of all records
    items : (arrays,) number of items so far
    read : (records,) whether a record is readable
    """

    data: NDArray[np.uint8]
    found: NDArray[np.bool_]
    value: NDArray[np.int64]
    length: NDArray[np.int32]
    item_found: NDArray[np.bool_]
    item_value: NDArray[np.int64]
    item_length: NDArray[np.int32]
    items: NDArray[np.int64]
    read: NDArray[np.bool_]

    @classmethod
    def empty(cls, data: NDArray[np.uint8], layout: SlotLayout, rows: int) -> BatchSlots:
        """Return slots without values."""
        slots = layout.of_records
        # Each item takes at least one byte. Memory of items that no record has is reserved and never touched.
        inner = len(layout.slots) + len(layout.arrays) - slots, len(data) if layout.arrays else 0
        return cls(
            data,
            np.zeros((slots, rows), np.bool_),
            np.zeros((slots, rows), np.int64),
            np.zeros((slots, rows), np.int32),
            np.empty(inner, np.bool_),
            np.empty(inner, np.int64),
            np.empty(inner, np.int32),
            np.zeros(len(layout.arrays), np.int64),
            np.zeros(rows, np.bool_),
        )

    def bytes(self, slot: int) -> pa.BinaryArray:
        """Return (records,) the bytes of a slot, null where it has none."""
        return gather(self.data, self.found[slot], self.value[slot], self.length[slot], pa.binary())

    def items_of(self, array: int, slots: Sequence[int]) -> tuple[NDArray[np.int64], BatchSlots]:
        """Return (items,) the record of each item of an array, in order, and the items as records of some item slots.

        ``slots``: their numbers, counted from the first item slot of all
        """
        counts = np.where(self.found[array], self.length[array], 0).astype(np.int64)
        record = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(record)) + np.repeat(self.value[array] - (np.cumsum(counts) - counts), counts)
        found, value, length = (
            np.stack([each[slot].take(place) for slot in slots])
            for each in (self.item_found, self.item_value, self.item_length)
        )
        inner = self._replace(found=found, value=value, length=length, read=np.ones(len(record), np.bool_))
        return record, inner

    def lists(self, array: int, values: pa.Array) -> pa.ListArray:
        """Return (records,) the items of an array as lists, null where it is missing; ``values``: (items,) in order."""
        there = self.found[array]
        ends = np.zeros(len(there) + 1, np.int32)
        np.cumsum(np.where(there, self.length[array], 0), out=ends[1:])
        return pa.ListArray.from_arrays(pa.array(ends), values, mask=pa.array(~there))


def array_of(path: Path) -> Path | None:
    """Return the path of the array whose items a path goes into; None without any.

    Examples
    --------
    >>> array_of(("stays[*]", "room", "wing")), array_of(("room", "wing"))
    (('stays[*]',), None)
    """
    return next((path[: number + 1] for number, step in enumerate(path) if step.endswith(ITEMS)), None)
