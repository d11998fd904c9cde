"""Keys of a configuration: as text, or by a location that every process can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainValidator

from crenel.anonymity.model.secret import EnvironmentKey, FileKey, KeySource, ProvidedKey, Secret, SubjectKey

KEY_SOURCES = "{environment: NAME}, {file: PATH}, or {provider: 'module:function'}"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROVIDER = re.compile(r"(\w+(?:\.\w+)*):(\w+)")


def read_secret(name: str, value: Any) -> Secret | None:
    """Return the value of the field ``name`` as a ``Secret``; None stays None.

    Raises
    ------
    ValueError
        The value is neither text nor one place; the message states the valid forms.
    """
    if value is None:
        return None
    if isinstance(value, str):
        if not value:
            raise ValueError("is empty")
        return Secret(name, value.encode())
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"is neither text nor one place; text, or one of {KEY_SOURCES}")
    ((kind, place),) = value.items()
    if kind not in _SOURCES or not isinstance(place, str) or not place:
        raise ValueError(f"names no place; one of {KEY_SOURCES}")
    return Secret(name, source=_SOURCES[kind](place))


def secret_field(name: str) -> BeforeValidator:
    """Return a validator that turns the value of the field ``name`` into a ``Secret``."""
    return BeforeValidator(partial(read_secret, name))


def _subject_key(value: Any) -> SubjectKey:
    if isinstance(value, SubjectKey):
        return value
    text = value.decode() if isinstance(value, bytes) else value
    return SubjectKey(read_secret("subject_key", dict(text) if isinstance(text, Mapping) else text))


if TYPE_CHECKING:
    SubjectKeyField: TypeAlias = Any
else:
    SubjectKeyField = Annotated[SubjectKey, PlainValidator(_subject_key)]
    """A key as text, as bytes of UTF-8, or by its place; None: no key."""


def _environment(name: str) -> KeySource:
    if not _NAME.fullmatch(name):
        raise ValueError("environment: is no name of a variable; letters, digits and '_', such as CRENEL_SUBJECT_KEY")
    return EnvironmentKey(name)


def _file(path: str) -> KeySource:
    if not Path(path).is_absolute():
        raise ValueError("file: is not absolute; workers have other folders, so begin the path with '/'")
    return FileKey(path)


def _provider(name: str) -> KeySource:
    found = _PROVIDER.fullmatch(name)
    if found is None:
        raise ValueError("provider: is not of the form 'module:function'; such as my_company.vault:subject_key")
    return ProvidedKey(found[1], found[2])


_SOURCES: dict[str, Callable[[str], KeySource]] = {
    "environment": _environment,
    "file": _file,
    "provider": _provider,
}
