"""Messages for validation errors, field by field."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from crenel.anonymity.model.builders.builder import BuilderError
from crenel.anonymity.model.errors import PolicyError
from crenel.jobs.config.fields import Section
from crenel.jobs.config.file import dotted

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
    "literal_error": "is not one of the choices",
    "ip_v4_network": "is not an IPv4 network",
}


_RENAMED = {
    "window": "suhdsa",
    "suhdsa.neighbours": "suhdsa.neighbors",  # codespell:ignore
    "differential_privacy": "sampling_and_noise",
    "privacy.persons.promise": "privacy.persons.guarantee",
}
"""Current field names by their names in version 0.1.0."""

_RENAMED_VALUES = {
    "window": "suhdsa",
    "generalise": "generalize",  # codespell:ignore
    "generalisation": "generalization",  # codespell:ignore
}
"""Current choices by their names in version 0.1.0."""


def explain(error: ValidationError, model: type[Section]) -> Iterator[tuple[str, str]]:
    """Yield each problem with the dotted name of its field."""
    for detail in error.errors(include_url=False):
        parts = [part for part in detail["loc"] if part != "[key]"]
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, BuilderError):
            parts.append(cause.field)
        name = dotted(parts)
        section, about = _look_up(parts, model)
        if isinstance(cause, PolicyError):
            yield name, str(cause)  # the message names the field itself
        elif detail["type"] == "extra_forbidden":
            known = list(section.model_fields)
            if name in _RENAMED:
                yield name, f"{name}: is called {_RENAMED[name]} now"
                continue
            yield name, f"{name}: is unknown{suggestion(str(parts[-1]), known)}; known here: {listed(known)}"
        else:
            if detail["type"] == "literal_error" and detail["input"] in _RENAMED_VALUES:
                yield name, f"{name}: {detail['input']!r} is called {_RENAMED_VALUES[detail['input']]!r} now"
                continue
            wrong = str(cause) if cause is not None else wrong_type(detail)
            intended = (
                suggestion(detail["input"], list(_choices(about.annotation)))
                if detail["type"] == "literal_error" and about
                else ""
            )
            is_complete = "; " in wrong or isinstance(cause, BuilderError)
            valid = about.description if about is not None and not is_complete else None
            yield name, f"{name}: {wrong}{intended}" if valid is None else f"{name}: {_both(wrong + intended, valid)}"


def wrong_type(detail: ErrorDetails) -> str:
    """Return in words how a value differs from the type of its field, without the value."""
    return _WRONG.get(detail["type"], detail["msg"])


UNDECIDED = "undecided"
"""Value of a field of ``policy`` that a person must decide; ``crenel init`` writes it, and no file with it is valid."""


def explain_undecided(content: Mapping[str, Any], model: type[Section]) -> Iterator[tuple[str, str]]:
    """Yield each undecided field of the policy with its dotted name."""

    def walk(node: Any, parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if node == UNDECIDED:
            yield parts
        for name, child in node.items() if isinstance(node, dict) else ():
            yield from walk(child, (*parts, str(name)))

    for parts in walk(content.get("policy"), ("policy",)):
        name, (_, about) = dotted(parts), _look_up(parts, model)
        valid = None if about is None else about.description
        if parts[1:2] == ("quasi_identifiers",) and len(parts) == 3:
            valid = "write {type: numeric} or {type: categorical, hierarchy: FILE}, or give the column another role"
        yield name, f"{name}: is undecided; {valid or 'decide it'}"


def _both(wrong: str, valid: str) -> str:
    """Return the problem and the valid form; one clause where both name the same kind of value."""
    kind = wrong.removeprefix("is not ").replace("is neither true nor false", "true or false")
    return f"must be {valid}" if re.match(rf"{re.escape(kind)}\b", valid) else f"{wrong}; {valid}"


def _look_up(parts: Sequence[str | int], model: type[Section]) -> tuple[type[Section], FieldInfo | None]:
    """Return the innermost section on the path to a field, and the innermost declared field."""
    section: type[Section] = model
    about: FieldInfo | None = None
    names = iter(parts)
    for part in names:
        found = section.model_fields.get(str(part))
        if found is None:
            break
        about = found
        if get_origin(found.annotation) is dict:
            next(names, None)  # a user-defined name
        inner = next(_sections(found.annotation), None)
        if inner is None:
            break
        section = inner
    return section, about


def _sections(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)


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
