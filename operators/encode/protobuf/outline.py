"""Messages and fields of a schema of Protobuf in its text form, as registries have it.

Source: Protocol Buffers, "Protobuf Language Specification". Only messages, with the numbers and names of their fields,
are read; all other statements are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from crenel.operators.encode.protobuf.schema import DescriptorError

_TOKEN = re.compile(
    r"(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[\w.]+|[-+{}\[\]()<>;=,:/]",
    re.DOTALL,
)
_OPENING = {"{": "}", "[": "]"}
_DEEPEST = 60
"""Maximum nesting of messages."""

_STATEMENTS = ("option", "reserved", "extensions", "import", "syntax", "edition")
_NO_SCHEMA = "is no schema of Protobuf in its text form"


@dataclass
class Outline:
    """A message, or a file with its messages.

    Attributes
    ----------
    name : full name; of a file, its package
    fields : name of each field by its number
    messages : those inside it, in order
    """

    name: str
    fields: dict[int, str] = field(default_factory=dict)
    messages: list[Outline] = field(default_factory=list)

    def find(self, name: str) -> tuple[int, ...] | None:
        """Return the indexes of a message, each within the one around it; None if there is no such message."""
        for index, message in enumerate(self.messages):
            if message.name == name:
                return (index,)
            if (inner := message.find(name)) is not None:
                return (index, *inner)
        return None

    def all(self) -> Iterator[Outline]:
        """Yield the messages inside it, at any depth."""
        for message in self.messages:
            yield message
            yield from message.all()


def read_outline(text: str) -> Outline:
    """Return the messages of a file.

    Raises
    ------
    DescriptorError
        The text is no schema of Protobuf.

    Examples
    --------
    >>> read_outline("package clinic; message Visit { string person = 1; message Home {} }").find("clinic.Visit.Home")
    (0, 0)
    """
    tokens, end = [], 0
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise DescriptorError(_NO_SCHEMA)
        end = found.end()
        if found["blank"] is None:
            tokens.append(found[0])
    statements = (i for i, token in enumerate(tokens[:-2]) if token == "package" and tokens[i + 2] == ";")
    package = next((tokens[i + 1] for i in statements), "")
    made = Outline(package)
    if not tokens or _read(tokens, 0, made, 0) != len(tokens):
        raise DescriptorError(_NO_SCHEMA)
    return made


def _read(tokens: list[str], at: int, into: Outline, depth: int) -> int:
    """Read statements into a message, and return the position of the sign that ends it, or the end."""
    words: list[str] = []
    while at < len(tokens) and tokens[at] != "}":
        token = tokens[at]
        if token == "{" and words[:1] in (["message"], ["oneof"]) and len(words) == 2:
            inner = into
            if words[0] == "message":
                inner = Outline(f"{into.name}.{words[1]}".lstrip("."))
                into.messages.append(inner)
            if depth >= _DEEPEST:
                raise DescriptorError(f"is nested more than {_DEEPEST} levels deep")
            at = _read(tokens, at + 1, inner, depth + 1)
            if at >= len(tokens):
                raise DescriptorError(_NO_SCHEMA)
            words = []
        elif token in _OPENING:
            at = _skipped(tokens, at)
            if token == "{" and words[:1] != ["option"]:  # an enum, a service or a group
                _add_field(words, into)
                words = []
        elif token == ";":
            _add_field(words, into)
            words = []
        else:
            words.append(token)
        at += 1
    return at


def _add_field(words: list[str], into: Outline) -> None:
    if len(words) >= 4 and words[-2] == "=" and words[0] not in _STATEMENTS:
        try:
            into.fields[int(words[-1], 0)] = words[-3]
        except ValueError:
            raise DescriptorError(_NO_SCHEMA) from None


def _skipped(tokens: list[str], at: int) -> int:
    """Return the position of the sign that closes the one at a position."""
    closing: list[str] = []
    for position in range(at, len(tokens)):
        if tokens[position] in _OPENING:
            closing.append(_OPENING[tokens[position]])
        elif closing and tokens[position] == closing[-1]:
            closing.pop()
            if not closing:
                return position
    raise DescriptorError(_NO_SCHEMA)
