"""Programs that read fields of messages into slots: tables for ``crenel.operators.encode.protobuf.scan``.

Source: Protocol Buffers, "Encoding". A message may hold a field several times; the last one counts, and of a oneof the
last member. Messages that are held several times are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crenel.operators.encode.protobuf.schema import MessageType, is_repeated, kind_of
from crenel.operators.encode.slots import SlotLayout

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

SKIPPED = -1
"""Slot of a value that is not wanted."""


class Wire(IntEnum):
    """Form of a value in its bytes."""

    VARINT = 0
    FIXED64 = 1
    SIZED = 2
    GROUP = 3
    GROUP_END = 4
    FIXED32 = 5


class Kind(IntEnum):
    """Meaning of a value."""

    WHOLE = 0
    WHOLE_32 = 1  # of 32 bits with a sign, in any number of bytes
    UNSIGNED = 2  # of 64 bits
    UNSIGNED_32 = 3
    ZIGZAG = 4
    ZIGZAG_32 = 5
    TRUTH = 6
    REAL = 7
    REAL_32 = 8
    BYTES = 9
    MESSAGE = 10


_FORMS = {
    "int64": (Wire.VARINT, Kind.WHOLE),
    "int32": (Wire.VARINT, Kind.WHOLE_32),
    "enum": (Wire.VARINT, Kind.WHOLE_32),
    "uint64": (Wire.VARINT, Kind.UNSIGNED),
    "uint32": (Wire.VARINT, Kind.UNSIGNED_32),
    "sint64": (Wire.VARINT, Kind.ZIGZAG),
    "sint32": (Wire.VARINT, Kind.ZIGZAG_32),
    "bool": (Wire.VARINT, Kind.TRUTH),
    "sfixed64": (Wire.FIXED64, Kind.WHOLE),
    "fixed64": (Wire.FIXED64, Kind.UNSIGNED),
    "double": (Wire.FIXED64, Kind.REAL),
    "sfixed32": (Wire.FIXED32, Kind.WHOLE_32),
    "fixed32": (Wire.FIXED32, Kind.UNSIGNED_32),
    "float": (Wire.FIXED32, Kind.REAL_32),
    "string": (Wire.SIZED, Kind.BYTES),
    "bytes": (Wire.SIZED, Kind.BYTES),
    "message": (Wire.SIZED, Kind.MESSAGE),
    "group": (Wire.GROUP, Kind.MESSAGE),
}


@dataclass(frozen=True)
class ProtobufProgram:
    """Tables that read some fields of one message.

    Attributes
    ----------
    rows : (fields, 8) number, wire, kind, slot or the message inside, message, first and last position in ``cleared``,
        and the slot of the array of a repeated field, or ``SKIPPED``; ordered by message
    messages : (messages + 1,) first row of each message
    cleared : slots that lose their values where a field is held, because its oneof has another member
    defaults : slots that have a value, which is 0 or empty, where their message is held; ordered by message
    default_ends : (messages + 1,) first position of each message in ``defaults``
    item_slots : as ``SlotLayout.item_slots``
    depth : maximum nesting of messages
    """

    rows: NDArray[np.int64]
    messages: NDArray[np.int64]
    cleared: NDArray[np.int64]
    defaults: NDArray[np.int64]
    default_ends: NDArray[np.int64]
    item_slots: NDArray[np.int64]
    depth: int


@dataclass
class _WantedMessage:
    """A message with the wanted fields."""

    message: Descriptor
    depth: int
    slots: dict[str, int] = field(default_factory=dict)
    inner: dict[str, _WantedMessage] = field(default_factory=dict)
    arrays: dict[str, int] = field(default_factory=dict)

    def below(self) -> list[int]:
        """Return the slots of the message and of those inside it, of an array that of the array."""
        return [slot for name in {**self.slots, **self.inner} for slot in self.of(name)]

    def of(self, name: str) -> list[int]:
        """Return the slots of a field, as ``below``."""
        if name in self.arrays:
            return [self.arrays[name]]
        if name in self.inner:
            return self.inner[name].below()
        return [self.slots[name]] if name in self.slots else []


def compile_program(message: MessageType, layout: SlotLayout) -> ProtobufProgram:
    """Return the program that reads some fields.

    Raises
    ------
    DescriptorError
        The message has no such field.
    """
    root = _WantedMessage(message.descriptor, 1)
    nodes = [root]
    for path, slot in layout.slots.items():
        node = root
        for number, each in enumerate(message.find(path), 1):
            if path[:number] in layout.arrays:
                node.arrays[each.name] = layout.arrays.index(path[:number])
            if number == len(path):
                node.slots[each.name] = slot
                break
            if each.name not in node.inner:
                node.inner[each.name] = _WantedMessage(each.message_type, node.depth + 1)
                nodes.append(node.inner[each.name])
            node = node.inner[each.name]
    numbers = {id(node): number for number, node in enumerate(nodes)}
    rows: list[tuple[int, ...]] = []
    messages, default_ends = [0], [0]
    cleared: list[int] = []
    defaults: list[int] = []
    for node in nodes:
        for each in node.message.fields:
            wanted = node.inner.get(each.name)
            others = [slot for name in _rivals(each) for slot in node.of(name)]
            if each.name not in node.slots and wanted is None and not others:
                continue
            start = len(cleared)
            cleared += others
            target = node.slots.get(each.name, SKIPPED) if wanted is None else numbers[id(wanted)]
            wire, kind = _FORMS[kind_of(each)]
            if wanted is None and kind == Kind.MESSAGE:
                kind = Kind.BYTES  # which are skipped
            array = node.arrays.get(each.name, SKIPPED)
            rows.append((each.number, int(wire), int(kind), target, numbers[id(node)], start, len(cleared), array))
        messages.append(len(rows))
        defaults += node.arrays.values()
        plain = (name for name in node.slots if name not in node.arrays)
        defaults += [node.slots[name] for name in plain if not node.message.fields_by_name[name].has_presence]
        default_ends.append(len(defaults))
    return ProtobufProgram(
        np.array(rows, np.int64).reshape(-1, 8),
        np.array(messages, np.int64),
        np.array(cleared, np.int64),
        np.array(defaults, np.int64),
        np.array(default_ends, np.int64),
        layout.item_slots,
        max(node.depth for node in nodes),
    )


def _rivals(of: FieldDescriptor) -> list[str]:
    """Return the other members of a field's oneof."""
    group: Any = of.containing_oneof
    return [] if group is None or is_repeated(of) else [each.name for each in group.fields if each.name != of.name]
