"""Stored state of a shard: one blob that each step writes, and entries of several kinds that the blob inventories.

All shards store the fields of ``ShardState``; each algorithm adds its own (``crenel.state.castle``,
``crenel.state.suhdsa``, ``crenel.state.batch``).

======  =====================  ========================================  =============================================
name    key                    content                                   written
======  =====================  ========================================  =============================================
shard   -                      a subclass of ``ShardState``              after each step
blocks  block number           ``crenel.state.block.BufferedTuples``     on arrival; again or removed when tuples leave
seen    column * 64 + number   ``SeenValues``, 64 values in order of     when one of them arrives; number 0 with each
        of the entry           first appearance                          tuple
======  =====================  ========================================  =============================================
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import Column, StateError, array, arrays_of, checksum, pack, raw, readable, unpack
from crenel.state.counters import CounterState, declared

if TYPE_CHECKING:
    from typing_extensions import Self

Entries: TypeAlias = Mapping[str, dict[int, bytes]]
"""Blobs by kind and key."""


@dataclass
class StoredShard:
    """The entire stored state of one shard.

    Attributes
    ----------
    shard : the blob that is written after each step
    entries : all others, by kind and key
    """

    shard: bytes
    entries: dict[str, dict[int, bytes]]

    def apply(self, changes: Changes) -> None:
        """Apply the changes of a step."""
        self.shard = changes.shard
        for kind, written in changes.entries.items():
            blobs = self.entries.setdefault(kind, {})
            for key, blob in written.items():
                if blob is None:
                    blobs.pop(key, None)
                else:
                    blobs[key] = blob

    def after(self, changes: Changes) -> StoredShard:
        """Return a copy to which changes are applied."""
        copy = StoredShard(self.shard, {kind: dict(blobs) for kind, blobs in self.entries.items()})
        copy.apply(changes)
        return copy


@dataclass(frozen=True)
class Changes:
    """Changes since the last write.

    Attributes
    ----------
    shard : the blob, always
    entries : by kind and key; None stands for an entry to remove
    """

    shard: bytes
    entries: Mapping[str, dict[int, bytes | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class StateColumn:
    """One column of a shard's blob.

    Attributes
    ----------
    name : name of the column
    form : ``array``, ``json``, or the type of whole (``i8``, ``u8``) or other (``f8``) numbers
    fields : fields of the state that the column holds; more than one only for numbers
    optional : whether the column is stored only where the field is not 0 or empty, which is its default
    """

    name: str
    form: str
    fields: tuple[str, ...]
    optional: bool = False

    def written(self, state: Any) -> dict[str, Column]:
        """Return the column of a state by name; empty where it is not stored."""
        value = getattr(state, self.fields[0])
        if self.optional and not (len(value) if self.form == "array" else value):
            return {}
        if self.form == "array":
            return {self.name: value}
        if self.form == "json":
            return {self.name: json.dumps(value, sort_keys=True).encode()}
        return {self.name: np.array([getattr(state, name) for name in self.fields], self.form)}

    def read(self, columns: Mapping[str, Column]) -> dict[str, Any]:
        """Return the fields of the state; raise ``StateError`` or ``ValueError`` where the column is damaged."""
        if self.optional and self.name not in columns:
            return {}
        if self.form == "json":
            return {self.fields[0]: json.loads(raw(columns, self.name))}
        column = array(columns, self.name)
        if self.form == "array":
            return {self.fields[0]: column}
        kind = float if self.form == "f8" else int
        return dict(zip(self.fields, map(kind, column.tolist()), strict=True))


def arrays(*names: str, optional: bool = False) -> tuple[StateColumn, ...]:
    """Return columns that each hold an array, the field of their name."""
    return tuple(StateColumn(name, "array", (name,), optional) for name in names)


def texts(*names: str) -> tuple[StateColumn, ...]:
    """Return columns that each hold a value as JSON, the field of their name."""
    return tuple(StateColumn(name, "json", (name,)) for name in names)


def numbers(name: str, *names: str, form: str = "i8", optional: bool = False) -> StateColumn:
    """Return a column that holds several numbers, or without ``names`` the field of its name."""
    return StateColumn(name, form, names or (name,), optional)


COUNTERS = tuple(numbers(declaration.name, optional=True) for declaration in declared(CounterState))
"""Columns of the declared counters."""

MEMBERS = arrays("members")
"""Column of the schema of the published columns."""


@dataclass(frozen=True, kw_only=True)
class ShardState(CounterState):
    """State of a shard without its entries; an algorithm adds fields.

    Attributes
    ----------
    KIND, VERSION : kind and newest format version of the blob
    COLUMNS : columns of the newest version, in stored order
    shard : number of the shard
    fingerprint : hashes of the fields that a restore must not change, by field
    numbers : next position, and further numbers of the algorithm
    lower, upper : (numeric quasi-identifiers,) declared bounds or the range observed so far
    key : (8,) words of the random stream's key
    key_used : number of words used from the stream
    kinds : (kinds,) releases by kind
    delays : (pairs, 2) bucket of the histogram, and tuples in it
    members : schema of the published columns with their roles (``crenel.state.columns.with_roles``)
    entries : count and digest of the stored entries by kind
    """

    KIND: ClassVar[str]
    VERSION: ClassVar[int]
    COLUMNS: ClassVar[tuple[StateColumn, ...]]

    shard: int
    fingerprint: dict[str, str]
    numbers: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    key: NDArray[np.uint64]
    key_used: int
    kinds: NDArray[np.int64]
    delays: NDArray[np.int64]
    members: NDArray[np.uint8]
    entries: dict[str, list[int | str]] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        columns: dict[str, Column] = {}
        for column in self.COLUMNS:
            columns |= column.written(self)
        return pack(self.KIND, self.VERSION, columns)

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> Self:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        version, columns = unpack(cls.KIND, blob, newest=cls.VERSION, where=where)
        with readable(f"{cls.KIND} state of {where}"):
            state = cls._upgraded(version, columns)
            for column in cls.COLUMNS:
                if not state.keys() >= set(column.fields):
                    state |= column.read(columns)
            return cls(**state)

    @classmethod
    def _upgraded(cls, version: int, columns: Mapping[str, Column]) -> dict[str, Any]:
        """Return the fields that a format version stores otherwise than the newest one does."""
        return {}


class Inventory:
    """Count and digest of a shard's entries by kind, as stored in the shard's blob.

    Each blob has its own checksum. But intact entries may still be inconsistent, because one was lost or stems from
    another time.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self._digests: dict[str, dict[int, int]] = {kind: {} for kind in kinds}
        self._total = dict.fromkeys(self._digests, 0)

    def update(self, changes: Mapping[str, dict[int, bytes | None]]) -> None:
        """Record entries that were written or removed."""
        for kind, entries in changes.items():
            digests, total = self._digests.setdefault(kind, {}), self._total.get(kind, 0)
            for key, blob in entries.items():
                total ^= digests.pop(key, 0)
                if blob is not None:
                    digests[key] = _digest(key, blob)
                    total ^= digests[key]
            self._total[kind] = total

    def recorded(self) -> dict[str, list[int | str]]:
        """Return count and digest by kind, for the blob of the shard."""
        return {kind: [len(digests), f"{self._total[kind]:032x}"] for kind, digests in self._digests.items()}

    @classmethod
    def of(cls, entries: Entries) -> Inventory:
        """Return the inventory of the given entries."""
        made = cls(entries)
        made.update({kind: dict(blobs) for kind, blobs in entries.items()})
        return made


def entries_of(stored: StoredShard, kinds: Iterable[str], recorded: Iterable[str]) -> dict[str, dict[int, bytes]]:
    """Return the entries by kind: of ``kinds``, of the inventory ``recorded``, and of any other kind in ``stored``."""
    present = [kind for kind, blobs in stored.entries.items() if blobs]
    return {kind: dict(stored.entries.get(kind, {})) for kind in dict.fromkeys((*kinds, *recorded, *present))}


def require_complete(recorded: Mapping[str, list[int | str]], entries: Entries, where: str) -> None:
    """Raise ``StateError``, naming the kind, where entries do not match the inventory in a shard's blob."""
    actual = Inventory.of(entries).recorded()
    for kind in sorted(recorded.keys() | actual.keys()):
        if recorded.get(kind) != actual.get(kind):
            has, wanted = actual.get(kind, [0])[0], recorded.get(kind, [0])[0]
            what = f"{has} entries where {wanted} were stored" if has != wanted else "entries of different times"
            raise StateError(f"{kind} state of {where}: {what}; the state does not belong together")


def _digest(key: int, blob: bytes) -> int:
    # The blob's own checksum represents its content.
    content = struct.pack("<qIQ", key, checksum(blob), len(blob))
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")


@dataclass(frozen=True)
class SeenValues:
    """Frequencies of some values of one sensitive column in the stream of a shard.

    Attributes
    ----------
    code : (values,) as in ``Block.sensitive``; 0 where ``amount`` is 0
    amount : (values,) tuples with the value
    total : (1,) all tuples; only that of the column's first entry is valid
    """

    VERSION: ClassVar = 1

    code: NDArray[np.uint64]
    amount: NDArray[np.int64]
    total: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        return pack("seen", self.VERSION, vars(self))

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> SeenValues:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        return cls(**arrays_of("seen", (field.name for field in fields(cls)), blob, cls.VERSION, where))
