"""Hierarchies in settings: the path of a file, one builder, or a mapping from each value to the labels above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import PlainValidator, TypeAdapter, ValidationInfo

from crenel.anonymity.model.builders.addresses import Ip
from crenel.anonymity.model.builders.builder import HierarchySource, built
from crenel.anonymity.model.builders.cells import Geohash, Quadkey
from crenel.anonymity.model.builders.dates import Dates
from crenel.anonymity.model.builders.hexagons import H3
from crenel.anonymity.model.builders.lists import Groups, GroupTree, Ordered, ValueList, Values, label_of
from crenel.anonymity.model.builders.mask import Mask
from crenel.anonymity.model.builders.numbers import Numbers
from crenel.anonymity.model.builders.times import Times, Weekdays
from crenel.anonymity.model.fields import Column, about, loaded, setting
from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError, from_paths, load

HIERARCHIES = (
    "the path of a hierarchy file, relative to the configuration, or a builder such as {values: [a, b]}, "
    "{groups: ...}, {numbers: ...}, {mask: ...} or {dates: ...}"
)
"""Valid values of a field that is a hierarchy."""


@setting
class HierarchySection:
    """A hierarchy in a configuration file: the path of its file, or one builder.

    Attributes
    ----------
    file : path of a hierarchy file; ``hierarchy: PATH`` is short for ``hierarchy: {file: PATH}``
    values : all values, each once and directly below the root; the leaves in this order
    groups : mapping from the label of each group to its values, or to a mapping of groups. Where groups differ in
        depth, the outermost group of a value stands for the levels that it lacks
    """

    file: Annotated[Column | None, about("the path of a hierarchy file, relative to the configuration")] = None
    values: Annotated[ValueList | None, about("a list of all values, such as [married, single]")] = None
    groups: Annotated[GroupTree | None, about("a mapping such as {Europe: [DE, FR], Asia: {East: [JP, KR]}}")] = None
    ordered: Annotated[Ordered | None, about("a mapping such as {values: [low, medium, high], widths: [2]}")] = None
    numbers: Annotated[Numbers | None, about("a mapping such as {domain: [0, 120], levels: [1, 2, 4, 8]}")] = None
    mask: Annotated[Mask | None, about("a mapping such as {length: 5, keep: [5, 4, 3, 2, 0]}")] = None
    dates: Annotated[Dates | None, about("a mapping such as {domain: [1920-01-01, 2026-12-31]}")] = None
    ip: Annotated[Ip | None, about("a mapping such as {networks: [10.0.0.0/16]}")] = None
    times: Annotated[Times | None, about("a mapping such as {levels: [minute, hour, part]}")] = None
    weekdays: Annotated[Weekdays | None, about("a mapping such as {levels: [day, part]}")] = None
    geohash: Annotated[Geohash | None, about("a mapping such as {levels: [6, 5, 4], within: [u4pr]}")] = None
    quadkey: Annotated[Quadkey | None, about("a mapping such as {levels: [14, 12], within: ['1202']}")] = None
    h3: Annotated[H3 | None, about("a mapping such as {levels: [9, 8, 7], within: [841f1d5ffffffff]}")] = None

    def __post_init__(self) -> None:
        if len(self._given) != 1:
            raise ValueError(f"must hold one of {', '.join(field.name for field in fields(self))}, and no other")

    @property
    def chosen(self) -> str | HierarchySource:
        """The path of the file, or the builder."""
        if self.values is not None:
            return Values(self.values)
        if self.groups is not None:
            return Groups(self.groups)
        (value,) = self._given
        return value

    @property
    def _given(self) -> list[Any]:
        return [value for field in fields(self) if (value := getattr(self, field.name)) is not None]


_SECTION = TypeAdapter(HierarchySection)


def hierarchy_of(value: Any, info: ValidationInfo) -> Any:
    """Return the hierarchy that a field describes; a path stays a path where the folder of the settings is unknown."""
    if isinstance(value, Mapping) and (_is_section(value) or not any(_is_list(above) for above in value.values())):
        value = _SECTION.validate_python(value, context=info.context).chosen
    if isinstance(value, HierarchySource):
        return built(value)
    if isinstance(value, str | Path) and str(value):
        return loaded(value, info, load)
    if isinstance(value, Mapping):
        return _built(value)
    if not isinstance(value, Hierarchy):
        raise ValueError("is no hierarchy")
    return value


def _is_section(value: Mapping[Any, Any]) -> bool:
    """Return whether a mapping has the name of a builder, and is not one from a value to the labels above it."""
    return len(value) == 1 and next(iter(value)) in {field.name for field in fields(HierarchySection)}


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _built(mapping: Mapping[Any, Any]) -> Hierarchy:
    paths = []
    for line, (leaf, ancestors) in enumerate(mapping.items(), 1):
        if not _is_list(ancestors):
            raise HierarchyError(f"line {line}: the labels above a value are a list such as ['group', '*']")
        try:
            paths.append([label_of(each) for each in (leaf, *ancestors)])
        except ValueError as error:
            raise HierarchyError(f"line {line}: {error}") from None
    return from_paths(paths)


def section_of(hierarchy: Hierarchy | str) -> Any:
    """Return the section of a hierarchy in a configuration file.

    Raises
    ------
    ValueError
        It was made neither by a builder nor from a file.
    """
    source = hierarchy if isinstance(hierarchy, str) else hierarchy.source
    if isinstance(source, HierarchySource):
        name = type(source).__name__.lower()
        return {name: getattr(source, name, source)}
    if source is None:
        raise ValueError("is an object; save it as a file, and give its path")
    return source


if TYPE_CHECKING:
    from typing import Generic, TypeVar, overload

    G = TypeVar("G")
    H = TypeVar("H")

    class _Field(Generic[G, H]):
        """A field whose constructor takes other types than it holds."""

        @overload
        def __get__(self, instance: None, owner: Any) -> Any: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> H: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...
        def __set__(self, instance: Any, value: G) -> None: ...

    HierarchyField: TypeAlias = _Field[
        str | Path | HierarchySource | Mapping[Any, Sequence[Any]] | Hierarchy, Hierarchy
    ]
    HierarchyOrNone: TypeAlias = Any
else:
    HierarchyField = Annotated[HierarchySection | Hierarchy, PlainValidator(hierarchy_of)]
    HierarchyOrNone = HierarchyField | None
