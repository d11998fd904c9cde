"""Messages of Protobuf, read from descriptor sets: ``protoc --include_imports --descriptor_set_out=FILE``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crenel.anonymity.model.policy import ITEMS

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool

_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""Bytes that no text has, and each descriptor set with a field."""

_GOOGLE = "google/protobuf/"
_OPTIONS = "google.protobuf.FieldOptions"
_NO_SET = (
    "is no descriptor set; write one by protoc --include_imports --descriptor_set_out=FILE, from the .proto file of "
    "the message"
)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class DescriptorError(ValueError):
    """A descriptor set that cannot be used; the message names the place in it."""


def is_descriptor_set(content: bytes) -> bool:
    """Return whether the content of a file is a descriptor set, and no text."""
    return _BINARY.search(content) is not None


@dataclass(frozen=True)
class MessageType:
    """A message of a descriptor set.

    Attributes
    ----------
    content : the descriptor set, with all files that it imports
    name : full name of the message, such as ``clinic.Visit``
    """

    content: bytes
    name: str

    @property
    def descriptor(self) -> Descriptor:
        """The description of the message by the package protobuf."""
        return _pool(self.content)[0].FindMessageTypeByName(self.name)

    def find(self, path: tuple[str, ...]) -> tuple[FieldDescriptor, ...]:
        """Return the fields from the message to the end of a path; ``DescriptorError`` if there is none.

        A step to the items of a repeated field ends with ``ITEMS``.
        """
        message: Descriptor | None = self.descriptor
        found: list[FieldDescriptor] = []
        for number, step in enumerate(path):
            name = step.removesuffix(ITEMS)
            place = repr(".".join(path[:number])) if number else "it"
            if message is None:
                raise DescriptorError(
                    f"has no field {'.'.join(path)!r}: {place} is {article(found[-1])}, and no message"
                )
            field = message.fields_by_name.get(name)
            if field is None:
                names = ", ".join(each.name for each in message.fields)
                raise DescriptorError(f"has no field {'.'.join(path)!r}: {place} has {names}")
            found.append(field)
            if name != step and (is_map(field) or not is_repeated(field)):
                raise DescriptorError(
                    f"has at {'.'.join((*path[:number], name))!r} {article(field)}, and no repeated field"
                )
            if number < len(path) - 1 and kind_of(field) == "group":
                raise DescriptorError(f"has at {'.'.join((*path[:number], name))!r} a group, whose fields are not read")
            message = None if name == step and is_repeated(field) else field.message_type
        return tuple(found)

    def unknown(self, messages: Mapping[str, Mapping[int, str]]) -> Iterator[str]:
        """Yield the fields that only another schema has, in the message or in one that it holds.

        ``messages``: names of the other schema's fields by their numbers, by the full name of their message
        """
        reached = {self.name: self.descriptor}
        waiting = [self.descriptor]
        while waiting:
            message = waiting.pop()
            for field in message.fields:
                inner = field.message_type
                if inner is not None and inner.full_name not in reached:
                    reached[inner.full_name] = inner
                    waiting.append(inner)
            for number, name in messages.get(message.full_name, {}).items():
                if number not in message.fields_by_number:
                    yield name if message.full_name == self.name else f"{message.name}.{name}"

    def options(self, field: FieldDescriptor) -> Iterator[tuple[str, Any]]:
        """Yield name and value of each option of a field whose definition the set has, or Protobuf.

        The values of a repeated option come one by one. Those of a message come as the fields inside it, and those of a
        map under their keys.
        """
        from google.protobuf import descriptor_pb2, message_factory

        try:
            known = _pool(self.content)[0].FindMessageTypeByName(_OPTIONS)
        except KeyError:  # the set uses no options of its own
            known = descriptor_pb2.FieldOptions.DESCRIPTOR
        yield from _inside(message_factory.GetMessageClass(known).FromString(field.GetOptions().SerializeToString()))


def read_message(content: bytes, name: str | None, option: str) -> MessageType:
    """Return a message of a descriptor set.

    Parameters
    ----------
    name : full name of the message, or its last part; None: the only one, without messages in others and of Protobuf
    option : the field or option that gives it, which an error names

    Raises
    ------
    DescriptorError
        The content is no descriptor set, lacks a file, has no such message or several without a choice; or the package
        protobuf is missing.
    """
    _, names = _pool(content)
    if name is None:
        tops = [full for full, is_top in names.items() if is_top]
        if len(tops) == 1:
            return MessageType(content, tops[0])
        if not tops:
            raise DescriptorError("has no message; give the descriptor set of the file that declares it")
        raise DescriptorError(f"has {len(tops)} messages ({_listed(tops)}); name one by {option}")
    found = [full for full in names if full == name] or [full for full in names if full.endswith(f".{name}")]
    if len(found) != 1:
        known = _listed(found or [full for full, is_top in names.items() if is_top])
        raise DescriptorError(
            f"has {'several messages' if found else 'no message'} of the name that {option} gives; choose one of "
            f"{known}"
        )
    return MessageType(content, found[0])


def is_repeated(field: FieldDescriptor) -> bool:
    """Return whether a field is an array or a map."""
    # Newer versions of the package deprecate the label.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map, which is an array of entries."""
    return bool(is_repeated(field) and field.message_type is not None and field.message_type.GetOptions().map_entry)


def kind_of(field: FieldDescriptor) -> str:
    """Return the type of a field as a .proto file names it, without its label."""
    if field.message_type is not None:
        return "group" if field.type == field.TYPE_GROUP else "message"
    kinds = {getattr(field, name): name[5:].lower() for name in dir(field) if name.startswith("TYPE_")}
    return kinds[field.type]


def article(field: FieldDescriptor) -> str:
    """Return the type of a field in words."""
    if is_map(field):
        return "a map"
    if is_repeated(field):
        return f"a repeated {kind_of(field)}"
    kind = field.message_type.full_name if field.message_type is not None else kind_of(field)
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


def symbol_of(field: FieldDescriptor, number: int) -> str:
    """Return the name of a value of an enum without the name of the enum in front; empty for an unknown value."""
    value = field.enum_type.values_by_number.get(number)
    prefix = _WORDS.sub("_", field.enum_type.name).upper() + "_"
    return "" if value is None else value.name.removeprefix(prefix)


def _inside(message: Any) -> Iterator[tuple[str, Any]]:
    for field, value in message.ListFields():
        name = field.full_name if field.is_extension else field.name
        if is_map(field):
            yield from value.items()
            continue
        for each in value if is_repeated(field) else [value]:
            if field.message_type is not None:
                yield from _inside(each)
            else:
                yield name, symbol_of(field, each) if field.enum_type is not None else each


@lru_cache(4)
def _pool(content: bytes) -> tuple[DescriptorPool, dict[str, bool]]:
    """Return the types of a descriptor set, and its messages by full name: whether one is at the top, and no import."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError:
        raise DescriptorError(
            "is a descriptor set, which needs the package protobuf: install crenel with its extra 'contract' or 'flink'"
        ) from None
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content).file
    except DecodeError:
        raise DescriptorError(_NO_SET) from None
    if not files:
        raise DescriptorError(_NO_SET)
    pool = descriptor_pool.DescriptorPool()
    names: dict[str, bool] = {}
    present = {file.name for file in files}
    for file in files:
        for name in file.dependency:
            if name not in present:
                raise DescriptorError(
                    f"lacks the file {name!r}, which {file.name!r} imports; write it by protoc --include_imports"
                )
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError):
            raise DescriptorError(_NO_SET) from None
        for message in file.message_type:
            _add(names, f"{file.package}.{message.name}".lstrip("."), message, not file.name.startswith(_GOOGLE))
    return pool, names


def _add(names: dict[str, bool], name: str, message: Any, is_top: bool) -> None:
    names[name] = is_top
    for inner in message.nested_type:
        if not inner.options.map_entry:
            _add(names, f"{name}.{inner.name}", inner, False)


def _listed(names: list[str]) -> str:
    return ", ".join(sorted(names)[:20]) + (", ..." if len(names) > 20 else "")
