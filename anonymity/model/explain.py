"""Messages for validation errors, field by field."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from crenel.anonymity.model.errors import PolicyError

_WRONG = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "int_parsing": "is not a whole number",
    "int_parsing_size": "is too large",
    "int_from_float": "is not a whole number",
    "int_type": "is not a whole number",
    "float_parsing": "is not a number",
    "float_type": "is not a number",
    "finite_number": "is not finite",
    "bool_parsing": "is neither true nor false",
    "bool_type": "is neither true nor false",
    "greater_than": "is too small",
    "greater_than_equal": "is too small",
    "less_than": "is too large",
    "less_than_equal": "is too large",
    "string_too_short": "is empty",
    "string_type": "is not text",
    "is_instance_of": "is not text",
    "tuple_type": "is not a list",
    "list_type": "is not a list",
    "too_short": "holds too little",
    "too_long": "holds too much",
    "dict_type": "is not a mapping",
    "model_type": "is not a mapping",
    "dataclass_type": "is not a mapping",
    "literal_error": "is not one of the choices",
    "ip_v4_network": "is not an IPv4 network",
}


def dotted(parts: Iterable[str | int]) -> str:
    """Return the name of a field: ``policy.sensitive[0]``."""
    name = ""
    for part in parts:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def explain(
    error: ValidationError, kind: type, *prefix: str, about: FieldInfo | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each problem with the dotted name of its field.

    Parameters
    ----------
    kind : the validated class, with a field for each key of its section
    prefix : names of the fields that lead to the section
    about : field of the section
    """
    outer = about
    for detail in error.errors(include_url=False):
        parts = [part for part in detail["loc"] if part != "[key]"]
        cause = detail.get("ctx", {}).get("error")
        field: str | None = getattr(cause, "field", None)
        if field is not None:
            parts.append(field)
        name = dotted((*filter(None, prefix), *parts))
        section, found = look_up(parts, kind)
        about = found if parts else outer
        if isinstance(cause, PolicyError):
            yield name, str(cause)  # the message names the field itself
        elif detail["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            known = [known for known, field in fields_of(section).items() if field.init is not False]
            yield name, f"{name}: is unknown{suggestion(str(parts[-1]), known)}; known here: {listed(known)}"
        else:
            wrong = str(cause) if cause is not None else wrong_type(detail)
            intended = (
                suggestion(detail["input"], list(_choices(about.annotation)))
                if detail["type"] == "literal_error" and about
                else ""
            )
            is_complete = "; " in wrong or field is not None
            valid = about.description if about is not None and not is_complete else None
            problem = f"{wrong}{intended}" if valid is None else _both(wrong + intended, valid)
            yield name, f"{name}: {problem}" if name else problem


def wrong_type(detail: ErrorDetails) -> str:
    """Return in words how a value differs from the type of its field, without the value."""
    return _WRONG.get(detail["type"], detail["msg"])


UNDECIDED = "undecided"
"""Value of a field of ``policy`` that a person must decide; ``crenel init`` writes it, and no file with it is valid."""


def explain_undecided(content: Mapping[str, Any], kind: type) -> Iterator[tuple[str, str]]:
    """Yield each undecided field of the policy, whose class is ``kind``, with its dotted name."""

    def walk(node: Any, parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if node == UNDECIDED:
            yield parts
        for name, child in node.items() if isinstance(node, dict) else ():
            yield from walk(child, (*parts, str(name)))

    for parts in walk(content.get("policy"), ("policy",)):
        name, (_, about) = dotted(parts), look_up(parts[1:], kind)
        valid = None if about is None else about.description
        if parts[1:2] == ("quasi_identifiers",) and len(parts) == 3:
            valid = "write {type: numeric} or {type: categorical, hierarchy: FILE}, or give the column another role"
        yield name, f"{name}: is undecided; {valid or 'decide it'}"


def _both(wrong: str, valid: str) -> str:
    """Return the problem and the valid form; one clause where both name the same kind of value."""
    kind = wrong.removeprefix("is not ").replace("is neither true nor false", "true or false")
    return f"must be {valid}" if re.match(rf"{re.escape(kind)}\b", valid) else f"{wrong}; {valid}"


def fields_of(kind: type) -> dict[str, FieldInfo]:
    """Return the fields of a class that pydantic validates, by name."""
    own: dict[str, FieldInfo] = getattr(kind, "__pydantic_fields__", {})
    fields = {name: field for name, field in own.items() if not field.exclude}
    if (further := getattr(kind, "further_fields", None)) is not None:  # in place of the mapping that holds them
        del fields["models"]
        fields |= further()
    return fields


def fields_within(kind: type) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields of a class and of the sections within it, by dotted name, without the sections themselves."""
    for name, field in fields_of(kind).items():
        inner = list(sections(field.annotation))
        for section in inner:
            for path, own in fields_within(section):
                yield f"{name}.{path}", own
        if not inner:
            yield name, field


def look_up(parts: Sequence[str | int], kind: type) -> tuple[type, FieldInfo | None]:
    """Return the innermost section on the path to a field, and the innermost declared field."""
    section: type = kind
    about, rest = None, list(map(str, parts))
    while rest:
        field = fields_of(section).get(rest[0])
        if field is None:
            break
        about = field
        # After the field, the name of an item of a mapping is the user's.
        rest = rest[2:] if get_origin(field.annotation) is dict else rest[1:]
        inner = list(sections(field.annotation))
        if not inner:
            break
        section = next((each for each in inner if rest and rest[0] in fields_of(each)), inner[0])
    return section, about


def sections(annotation: Any) -> Iterator[type]:
    """Yield the classes with fields that the type of a field names."""
    if isinstance(annotation, type) and fields_of(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from sections(argument)


def _choices(annotation: Any) -> Iterator[str]:
    for argument in get_args(annotation):
        if isinstance(argument, str):
            yield argument
        else:
            yield from _choices(argument)


def suggestion(word: object, known: Sequence[str]) -> str:
    """Return a question whether one of ``known`` was intended; empty where none is similar."""
    close = difflib.get_close_matches(word, known, 1) if isinstance(word, str) else []
    return f" (did you mean {close[0]!r}?)" if close else ""


def listed(names: Sequence[str]) -> str:
    """Join names for a message."""
    return ", ".join(names)
