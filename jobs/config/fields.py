"""Field types of the sections of a configuration that only a job has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator


def _flat(value: object) -> object:
    """Flatten nested options to Flink's dotted names."""
    if not isinstance(value, dict):
        return value
    flat: dict[str, object] = {}
    for key, option in _leaves(value, ""):
        if key in flat:
            raise ValueError(f"the option {key!r} is given twice")
        flat[key] = option
    return flat


def _leaves(options: dict[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, option in options.items():
        if isinstance(option, dict):
            yield from _leaves(option, f"{prefix}{key}.")
        else:
            yield prefix + key, option


def _connected(options: dict[str, str]) -> dict[str, str]:
    if "connector" not in options and "table" not in options:
        raise ValueError("the option 'connector' is missing")
    return options


def _of_a_type(options: dict[str, str]) -> dict[str, str]:
    if not options.get("type"):
        raise ValueError("the option 'type' is missing")
    return options


Options: TypeAlias = Annotated[dict[str, str], BeforeValidator(_flat)]
Sink: TypeAlias = Annotated[Options, AfterValidator(_connected)]
Catalog: TypeAlias = Annotated[Options, AfterValidator(_of_a_type)]
