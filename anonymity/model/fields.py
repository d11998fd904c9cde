"""Settings: the decorator of their classes, and the types of their fields.

Each class of settings is a frozen dataclass whose fields are those of a section of the configuration file. pydantic
validates a section of a file, and the arguments of a constructor, in the same way.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from datetime import date, datetime, timedelta, timezone
from functools import wraps
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_args, get_type_hints

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, WrapValidator
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo
from typing_extensions import dataclass_transform

from crenel.anonymity.model.durations import LONGEST, parse_duration
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.explain import explain

C = TypeVar("C")
T = TypeVar("T")

DurationLike: TypeAlias = int | str | timedelta
"""Milliseconds, a text such as ``"10 min"`` or ``"6 h"``, or a ``timedelta``."""

_CONFIG = ConfigDict(
    extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True, revalidate_instances="always"
)

MOST = 2**31 - 1
"""Maximum of a whole number among settings."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def setting(kind: type[C]) -> type[C]:
    """Make a frozen dataclass of settings, whose constructor validates its arguments by the types of the fields.

    A contradiction between fields is raised by the class, in ``__post_init__``, as a ``ValueError``. The constructor
    raises ``ConfigError`` with all problems, each with its field. A path of a file stays a path until ``Settings``
    reads it, because it is relative to the folder of the settings.
    """
    made: Any = dataclass(kind, frozen=True, config=_CONFIG)
    validate, signature = made.__init__, inspect.signature(made)

    @wraps(validate)
    def init(self: Any, *args: Any, **given: Any) -> None:
        # By name, so that a problem has the name of its field, and not its position.
        of_position = signature.bind_partial(*args).arguments
        if twice := of_position.keys() & given.keys():
            raise TypeError(f"{kind.__name__}() got several values for argument {min(twice)!r}")
        try:
            validate(self, **of_position, **given)
        except ValidationError as error:
            prefix = getattr(made, "section", "")
            raise ConfigError(kind.__name__, [problem for _, problem in explain(error, made, prefix)]) from None

    made.__init__ = init
    show_plain_types(made)
    return made


def show_plain_types(kind: Any) -> None:
    """Have ``help`` and notebooks show the types of a class's fields, without what validates and describes them."""
    try:
        hints, signature = get_type_hints(kind), inspect.signature(kind)
    except NameError:  # a type of a function's own
        return
    fields = [of.replace(annotation=hints.get(of.name, of.annotation)) for of in signature.parameters.values()]
    kind.__signature__ = signature.replace(parameters=fields)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kind.__init__.__signature__ = signature.replace(parameters=[own, *fields])


def is_duration(field: FieldInfo) -> bool:
    """Return whether the values of a field are durations in milliseconds."""
    return _has(field.annotation, _duration) or any(_has(each, _duration) for each in field.metadata)


def _has(annotation: Any, validator: Callable[..., object]) -> bool:
    """Return whether a type names a validator."""
    if isinstance(annotation, BeforeValidator):
        return annotation.func is validator
    return any(_has(each, validator) for each in (*get_args(annotation), *getattr(annotation, "__metadata__", ())))


def folder_of(info: ValidationInfo) -> Path:
    """Return the folder that paths are relative to: that of the settings, or else the current one."""
    return Path((info.context or {}).get("folder") or ".")


def reading(load: Callable[[Path], object]) -> Callable[[object, ValidationInfo], object]:
    """Return a validator that loads the file of a path by ``load``, and leaves other values unchanged."""

    def read(value: object, info: ValidationInfo) -> object:
        return load(folder_of(info) / value) if isinstance(value, str) and value else value

    return read


def about(description: str) -> Any:
    """Return the annotation of a field with a description of its valid values, for errors and the reference."""
    return Field(description=description)


class Milliseconds(float):
    """Milliseconds of a duration in a policy, in which only days and times are measured."""

    @property
    def text(self) -> str:
        """The duration as a policy has it."""
        return f"{self:.17g} ms"


class Instant(Milliseconds):
    """Epoch milliseconds of a day or a time in a policy."""

    @property
    def text(self) -> str:
        """The time as a policy has it."""
        return str(datetime(1970, 1, 1) + timedelta(milliseconds=self))


def _duration(value: object) -> object:
    _refuse_boolean(value)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    return parse_duration(value) if isinstance(value, str) else value


def _refuse_boolean(value: object) -> None:
    if isinstance(value, bool):
        raise ValueError("is a Boolean, and no number")  # true would be 1


def _as_typed(value: object) -> object:
    _refuse_boolean(value)
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


def require_path(value: object) -> str:
    """Return the text of a path; raise ``ValueError`` for another value or an empty one."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("is not text" if value != "" else "is empty")
    return str(value)


def loaded(path: str | Path, info: ValidationInfo, load: Callable[[Path], Any]) -> Any:
    """Return what a file holds, with its path as ``source``; the path where the folder of the settings is unknown."""
    return replace(load(folder_of(info) / path), source=str(path)) if info.context else str(path)


def _path(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _day(value: object) -> object:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise ValueError("is not a day") from None


Column: TypeAlias = Annotated[str, Field(min_length=1)]
Whole: TypeAlias = Annotated[int, BeforeValidator(_as_typed)]
Real: TypeAlias = Annotated[float, BeforeValidator(_as_typed), Field(allow_inf_nan=False)]
Positive: TypeAlias = Annotated[Whole, Field(ge=1, le=MOST)]
Natural: TypeAlias = Annotated[Whole, Field(ge=0, le=MOST)]
Share: TypeAlias = Annotated[Real, Field(ge=0, le=1)]
AboveZero: TypeAlias = Annotated[Real, Field(gt=0)]
Weights: TypeAlias = dict[Column, Annotated[Real, Field(ge=0)]]
"""Weight in distances by quasi-identifier; the weight of every other one is 1."""

if TYPE_CHECKING:  # a type checker has one type for what a field takes and what it holds
    Duration: TypeAlias = Any
    Position: TypeAlias = Any
    Span: TypeAlias = Any
    Day: TypeAlias = Any
    Network: TypeAlias = Any
    FilePath: TypeAlias = str | Path
    Columns: TypeAlias = Sequence[str]
    Items: TypeAlias = Sequence[T]
else:
    Items = tuple[T, ...]
    Columns = Annotated[tuple[Column, ...], BeforeValidator(lambda value: () if value is None else value)]
    FilePath = Annotated[str, Field(min_length=1), BeforeValidator(_path)]
    Day = Annotated[date, BeforeValidator(_day)]
    Network = IPv4Network
    Duration = Annotated[int, BeforeValidator(_duration), Field(ge=0, le=LONGEST)]
    """Milliseconds; from a text such as ``10 min`` or a ``timedelta`` as well."""

    Position = Annotated[Real, WrapValidator(_instant)]
    """A number; a day or a time becomes an ``Instant``."""

    Span = Annotated[float, BeforeValidator(_as_typed), Field(allow_inf_nan=False, gt=0), WrapValidator(_span)]
    """A number above 0; a duration becomes ``Milliseconds``."""
