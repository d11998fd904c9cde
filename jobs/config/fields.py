"""Field types of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator

from crenel.anonymity.model.attributes import Instant, Milliseconds
from crenel.anonymity.model.durations import LONGEST, parse_duration

_MOST = 2**31 - 1
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


def _as_typed(value: object) -> object:
    # Only Python reads 1_000 as a number; the user may have intended 1.000.
    if isinstance(value, str) and "_" in value:
        raise ValueError("is not a number; digits without '_' between them")
    return value


def _instant(value: object, validate: Callable[[object], float]) -> float:
    """Return a number; the epoch milliseconds of a day or a time, in UTC unless it has a zone."""
    if not isinstance(value, date) and not (isinstance(value, str) and _DAY.match(value.strip())):
        number = validate(value)
        return value if isinstance(value, Instant) else number
    try:
        time = datetime.fromisoformat(str(value).strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("is no day or time such as 2024-02-29 or '2024-02-29 08:30'") from None
    time = time.replace(tzinfo=time.tzinfo or timezone.utc)
    return Instant((time - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(milliseconds=1))


def _span(value: object, validate: Callable[[object], float]) -> float:
    """Return a number; the milliseconds of a duration with a unit."""
    if isinstance(value, str) and value.strip()[-1:].isalpha():
        return Milliseconds(validate(parse_duration(value)))
    number = validate(value)
    return value if isinstance(value, Milliseconds) else number


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


Column: TypeAlias = Annotated[str, Field(min_length=1)]
Columns: TypeAlias = Annotated[tuple[Column, ...], BeforeValidator(lambda value: () if value is None else value)]
Whole: TypeAlias = Annotated[int, BeforeValidator(_as_typed)]
Real: TypeAlias = Annotated[float, BeforeValidator(_as_typed), Field(allow_inf_nan=False)]
Positive: TypeAlias = Annotated[Whole, Field(ge=1, le=_MOST)]
Natural: TypeAlias = Annotated[Whole, Field(ge=0, le=_MOST)]
Duration: TypeAlias = Annotated[int, BeforeValidator(_duration), Field(ge=0, le=LONGEST)]
Position: TypeAlias = Annotated[Real, WrapValidator(_instant)]
"""A number; a day or a time becomes an ``Instant``."""

Span: TypeAlias = Annotated[float, BeforeValidator(_as_typed), Field(allow_inf_nan=False, gt=0), WrapValidator(_span)]
"""A number above 0; a duration becomes ``Milliseconds``."""

AboveZero: TypeAlias = Annotated[Real, Field(gt=0)]
Options: TypeAlias = Annotated[dict[str, str], BeforeValidator(_flat)]
Sink: TypeAlias = Annotated[Options, AfterValidator(_connected)]
Catalog: TypeAlias = Annotated[Options, AfterValidator(_of_a_type)]


class Section(BaseModel):
    """A mapping of the file in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)
