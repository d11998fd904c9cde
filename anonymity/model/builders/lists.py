"""Hierarchies of listed values: each value below the root, values in nested groups, and ranges of ordered values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator

from crenel.anonymity.model.builders.builder import MOST_LEAVES, ROOT, BuilderError, HierarchySource
from crenel.anonymity.model.fields import Items, Positive, about, setting
from crenel.anonymity.model.values import texts


def label_of(value: object) -> str:
    """Return a value as text; a number, a Boolean, a day or a time as a column of such values has it.

    Raises
    ------
    ValueError
        The value is of another type.
    """
    if isinstance(value, str):
        return value
    try:
        text = texts(pa.array([value]))[0].as_py()
    except (pa.ArrowException, OverflowError):
        text = None
    if not isinstance(text, str):
        raise ValueError(f"holds a {type(value).__name__}; give text, a number, a Boolean, a day or a time")
    return text


Label: TypeAlias = Annotated[str, BeforeValidator(label_of)]


def _distinct(values: Sequence[str]) -> Sequence[str]:
    if not values or not all(values) or ROOT in values:
        raise ValueError("must be values, at least one, none of them empty and none '*', which is the root")
    if len(values) > MOST_LEAVES:
        raise ValueError(f"are {len(values)} values; give 2^20 at most")
    if len(set(values)) < len(values):
        (value, _), *_ = Counter(values).most_common(1)
        raise ValueError(f"hold {value!r} twice; name each value once")
    return values


Tree: TypeAlias = "Mapping[str, Tree] | Sequence[str]"


def _tree(value: object, *path: str) -> Any:
    """Return groups with labels as text; raise ``ValueError`` that names the group."""
    if isinstance(value, Mapping) and value:
        return {label_of(key): _tree(below, *path, label_of(key)) for key, below in value.items()}
    if path and isinstance(value, list | tuple) and value:
        return tuple(map(label_of, value))
    where = f"the group {'.'.join(path)} is not a list of values or" if path else "is not"
    raise ValueError(f"{where} a mapping of groups")


def _walk(tree: Tree, *above: str) -> Iterator[tuple[str, ...]]:
    """Yield the path of each value, without the root."""
    for label in tree:
        if isinstance(tree, Mapping):
            yield from _walk(tree[label], label, *above)
        else:
            yield (label, *above)


def _distinct_leaves(tree: Tree) -> Tree:
    _distinct([path[0] for path in _walk(tree)])
    return tree


if TYPE_CHECKING:
    ValueList: TypeAlias = Sequence[Any]
    GroupTree: TypeAlias = Any
else:
    ValueList = Annotated[tuple[Label, ...], AfterValidator(_distinct)]
    GroupTree = Annotated[Any, BeforeValidator(_tree), AfterValidator(_distinct_leaves)]


@setting
class Values(HierarchySource):
    """A hierarchy of values without groups: each value, then the root.

    In a file, ``hierarchy: {values: [married, single]}``.

    Attributes
    ----------
    values : all values, each once; the leaves in this order
    """

    values: Annotated[ValueList, about("a list of all values, such as [married, single]")]

    def paths(self) -> list[tuple[str, ...]]:
        return [(value, ROOT) for value in self.values]


@setting
class Ordered(HierarchySource):
    """A hierarchy of ordered values by ranges of growing width: ``low``, ``low to medium``.

    Attributes
    ----------
    values : all values, each once, in their order
    widths : numbers of values in the ranges of each level, each a multiple of the one before. The last range of a level
        is shorter where the width does not divide the number of values
    """

    values: Annotated[ValueList, about("a list of all values in their order, such as [low, medium, high]")]
    widths: Annotated[Items[Positive], about("numbers of values, each a multiple of the one before, such as [2, 4]")]

    def __post_init__(self) -> None:
        if any(wide <= narrow or wide % narrow for narrow, wide in pairwise((1, *self.widths))):
            raise BuilderError("widths", "must be whole numbers from 2, each a multiple of the one before: [2, 4]")

    def paths(self) -> list[tuple[str, ...]]:
        return [
            (value, *(self._range(number, width) for width in self.widths), ROOT)
            for number, value in enumerate(self.values)
        ]

    def _range(self, number: int, width: int) -> str:
        within = self.values[number - number % width :][:width]
        return within[0] if len(within) == 1 else f"{within[0]} to {within[-1]}"


@setting
class Groups(HierarchySource):
    """A hierarchy of values in groups, which may hold groups: ``DE``, ``Europe``, ``*``.

    In a file, ``hierarchy: {groups: {Europe: [DE, FR], Asia: {East: [JP, KR]}}}``. Where groups differ in depth, the
    outermost group of a value stands for the levels that it lacks.

    Attributes
    ----------
    groups : mapping from the label of each group to its values, or to a mapping of groups
    """

    groups: Annotated[GroupTree, about("a mapping such as {Europe: [DE, FR], Asia: {East: [JP, KR]}}")]

    def __hash__(self) -> int:
        return hash(tuple(_walk(self.groups)))

    def paths(self) -> list[tuple[str, ...]]:
        found = list(_walk(self.groups))
        deepest = max(map(len, found))
        return [(*path, *(path[-1],) * (deepest - len(path)), ROOT) for path in found]
