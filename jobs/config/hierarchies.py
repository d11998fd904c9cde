"""Sections for ``hierarchy`` of a quasi-identifier: the path of a file, or one builder with its parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cached_property
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BeforeValidator, Field, ValidationInfo
from pydantic import model_validator as check

from crenel.anonymity.model.builders.addresses import Addresses
from crenel.anonymity.model.builders.builder import Builder, built
from crenel.anonymity.model.builders.cells import Geohash, Quadkey
from crenel.anonymity.model.builders.dates import Dates, Period
from crenel.anonymity.model.builders.hexagons import H3
from crenel.anonymity.model.builders.mask import DIGITS, Mask
from crenel.anonymity.model.builders.numbers import Numbers
from crenel.anonymity.model.builders.times import TimePeriod, Times, Weekdays, WeekPeriod
from crenel.anonymity.model.errors import read_text
from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError, from_paths, load
from crenel.jobs.config.fields import AboveZero, Natural, Positive, Real, Section
from crenel.operators.encode.values import texts


def _folder(info: ValidationInfo) -> Path:
    return Path((info.context or {})["folder"])


def reading(load: Callable[[Path], object]) -> Callable[[object, ValidationInfo], object]:
    """Return a validator that loads file paths with ``load``, and leaves other values unchanged."""

    def read(value: object, info: ValidationInfo) -> object:
        return load(_folder(info) / value) if isinstance(value, str) and value else value

    return read


_loaded = reading(load)


def _built(value: object) -> object:
    """Return the hierarchy of a mapping from each value to its ancestors; another object unchanged."""
    if not isinstance(value, Mapping):
        return value
    paths = []
    for line, (leaf, ancestors) in enumerate(value.items(), 1):
        if isinstance(ancestors, str) or not isinstance(ancestors, Sequence):
            raise HierarchyError(f"line {line}: the labels above a value are a list such as ['group', '*']")
        paths.append([_label(each, line) for each in (leaf, *ancestors)])
    return from_paths(paths)


def _label(value: object, line: int) -> str:
    """Return a value as text; a number, a Boolean, a day or a time as a column of such values has it."""
    if isinstance(value, str):
        return value
    try:
        text = texts(pa.array([value]))[0].as_py()
    except (pa.ArrowException, OverflowError):
        text = None
    if not isinstance(text, str):
        raise HierarchyError(
            f"line {line}: holds a {type(value).__name__}; give text, a number, a Boolean, a day or a time"
        )
    return text


def _as_section(value: object, info: ValidationInfo) -> object:
    """Expand a path, which is short for ``{file: PATH}``."""
    return {"file": _loaded(value, info)} if isinstance(value, str) and value else value


def _day(value: object) -> object:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise ValueError("is not a day") from None


def _lines(value: object, info: ValidationInfo) -> object:
    """Return the lines of a file, if ``value`` is a path."""
    if not isinstance(value, str) or not value:
        return value
    return [line for line in read_text(_folder(info) / value, HierarchyError).splitlines() if line]


class BuilderSection(Section):
    """The parameters of one builder."""

    @check(mode="after")
    def _possible(self) -> BuilderSection:
        self.core()
        return self

    @abstractmethod
    def core(self) -> Builder:
        """Return the builder; raise ``BuilderError`` if its parameters make no hierarchy."""


class NumbersSection(BuilderSection):
    domain: tuple[Real, Real] = Field(description="[lowest, highest], two finite numbers")
    levels: tuple[AboveZero, ...] = Field(
        description="widths, each a multiple of the one before, the leaves first, such as [1, 2, 4, 8]"
    )
    origin: Real = Field(0, description="a number at which an interval of every width begins")
    whole: bool = Field(True, description="true, or false for numbers with a fraction")
    open: bool = Field(False, description="true or false: whether the highest leaf takes all larger numbers")

    def core(self) -> Numbers:
        return Numbers(**dict(self))


class MaskSection(BuilderSection):
    keep: tuple[Natural, ...] = Field(
        description="numbers of characters that are kept, each fewer than the one before, such as [5, 4, 3, 2, 0]"
    )
    length: Positive | None = Field(None, description="a whole number, 1 or more: the characters of every value")
    alphabet: str = Field(DIGITS, description="all characters of a value, each once, such as '0123456789'")
    values: Annotated[tuple[str, ...], BeforeValidator(_lines)] | None = Field(
        None, description="a list of all values, or the path of a text file with one in each line"
    )

    def core(self) -> Mask:
        return Mask(**dict(self))


class DatesSection(BuilderSection):
    domain: tuple[Annotated[date, BeforeValidator(_day)], Annotated[date, BeforeValidator(_day)]] = Field(
        description="[first, last], two days such as [1920-01-01, 2026-12-31]"
    )
    levels: tuple[Period, ...] = Field(
        ("day", "month", "quarter", "year", "decade"),
        description="some of day, month, quarter, year, decade, in this order, or some of day, week, week_year",
    )

    def core(self) -> Dates:
        return Dates(**dict(self))


class IpSection(BuilderSection):
    networks: tuple[IPv4Network, ...] = Field(description="IPv4 networks such as [10.0.0.0/16]; IPv6 is not known")
    levels: tuple[Positive, ...] = Field(
        (32, 24, 16, 8), description="lengths of prefixes, the leaves first, such as [32, 24, 16, 8]"
    )

    def core(self) -> Addresses:
        return Addresses(**dict(self))


class TimesSection(BuilderSection):
    levels: tuple[TimePeriod, ...] = Field(
        ("minute", "hour", "part"), description="some of minute, hour, part (a quarter of the day), in this order"
    )

    def core(self) -> Times:
        return Times(**dict(self))


class WeekdaysSection(BuilderSection):
    levels: tuple[WeekPeriod, ...] = Field(
        ("day", "part"), description="day, part (weekday or weekend), or both in this order"
    )

    def core(self) -> Weekdays:
        return Weekdays(**dict(self))


class GeohashSection(BuilderSection):
    levels: tuple[Positive, ...] = Field(description="lengths of geohashes, the leaves first, such as [6, 5, 4, 3]")
    within: tuple[str, ...] = Field((), description="geohashes that contain all values, such as [u4pr, u4px]")

    def core(self) -> Geohash:
        return Geohash(**dict(self))


class QuadkeySection(BuilderSection):
    levels: tuple[Positive, ...] = Field(description="lengths of quadkeys, the leaves first, such as [14, 12, 10]")
    within: tuple[str, ...] = Field((), description="quadkeys that contain all values, such as ['1202', '1203']")

    def core(self) -> Quadkey:
        return Quadkey(**dict(self))


class H3Section(BuilderSection):
    levels: tuple[Natural, ...] = Field(description="resolutions of H3, the leaves first, such as [9, 8, 7]")
    within: tuple[str, ...] = Field((), description="H3 indices of cells with all values, such as [841f1d5ffffffff]")

    def core(self) -> H3:
        return H3(**dict(self))


class HierarchySection(Section):
    """A file or one builder.

    Attributes
    ----------
    file : path of a hierarchy file; ``hierarchy: PATH`` is short for ``hierarchy: {file: PATH}``
    """

    file: Annotated[Hierarchy, BeforeValidator(_built), BeforeValidator(_loaded)] | None = Field(
        None, description="the path of a hierarchy file, relative to the configuration"
    )
    numbers: NumbersSection | None = Field(
        None, description="a mapping such as {domain: [0, 120], levels: [1, 2, 4, 8]}"
    )
    mask: MaskSection | None = Field(None, description="a mapping such as {length: 5, keep: [5, 4, 3, 2, 0]}")
    dates: DatesSection | None = Field(None, description="a mapping such as {domain: [1920-01-01, 2026-12-31]}")
    ip: IpSection | None = Field(None, description="a mapping such as {networks: [10.0.0.0/16]}")
    times: TimesSection | None = Field(None, description="a mapping such as {levels: [minute, hour, part]}")
    weekdays: WeekdaysSection | None = Field(None, description="a mapping such as {levels: [day, part]}")
    geohash: GeohashSection | None = Field(None, description="a mapping such as {levels: [6, 5, 4], within: [u4pr]}")
    quadkey: QuadkeySection | None = Field(None, description="a mapping such as {levels: [14, 12], within: ['1202']}")
    h3: H3Section | None = Field(None, description="a mapping such as {levels: [9, 8, 7], within: [841f1d5ffffffff]}")

    @check(mode="after")
    def _one(self) -> HierarchySection:
        if sum(value is not None for _, value in self) != 1:
            raise ValueError(f"must hold one of {', '.join(HierarchySection.model_fields)}, and no other")
        return self

    @property
    def builder(self) -> Builder | None:
        """The builder of the hierarchy; None for a file."""
        return next((value.core() for _, value in self if isinstance(value, BuilderSection)), None)

    @cached_property
    def tree(self) -> Hierarchy:
        """The hierarchy, built once."""
        builder: Any = self.builder
        return self.file if self.file is not None else built(builder)


HierarchyField = Annotated[HierarchySection, BeforeValidator(_as_section)]
