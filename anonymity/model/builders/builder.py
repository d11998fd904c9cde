"""Base class of hierarchy builders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError, from_paths

ROOT = "*"
"""The label of the root."""

MOST_LEAVES = 2**20
"""Maximum number of leaves of a built hierarchy, and of texts that a builder lists."""

Finder: TypeAlias = Callable[[NDArray[Any]], NDArray[np.intp]]
"""Function from (values,) to (values,) the leaf of each, -1 where the hierarchy has none.

Numbers are float64, or float32 for a column of that type; all other values are objects, text or None. The result for a
number that is not finite is undefined.
"""


class BuilderError(HierarchyError):
    """Invalid parameters of a hierarchy builder; the message names the valid ones.

    Attributes
    ----------
    field : name of the parameter
    """

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


class HierarchySource(ABC):
    """A frozen, validated description of a hierarchy, whose leaves denote values as those of a file do."""

    @abstractmethod
    def paths(self) -> list[tuple[str, ...]]:
        """Return one path per leaf, from the leaf to ``ROOT``, with a label for each level.

        Their order is that of the leaves of ``crenel.anonymity.model.hierarchy.from_paths``.
        """

    def hierarchy(self) -> Hierarchy:
        """Return the hierarchy; ``built`` keeps it."""
        return from_paths(self.paths())


class Builder(HierarchySource):
    """A description of a hierarchy that also finds the leaf of a value, which may be no label.

    Attributes
    ----------
    kind : kind of values: ``number``; else text, of a ``date`` (a day, ISO 8601), an ``address``, or any ``text``
    """

    kind: ClassVar[Literal["number", "date", "address", "text"]]

    @abstractmethod
    def finder(self) -> Finder:
        """Return a finder, to be used for many batches of values."""


@lru_cache(maxsize=16)
def built(builder: HierarchySource) -> Hierarchy:
    """Return the hierarchy of a builder, the same for equal builders: it may be large, and take a second."""
    return replace(builder.hierarchy(), source=builder)


def table_finder(leaves: dict[str, int]) -> Finder:
    """Return a finder that looks up each text in ``leaves``, the leaf of every known text."""

    def find(texts: NDArray[Any]) -> NDArray[np.intp]:
        return np.fromiter(map(leaves.get, texts, repeat(-1)), np.intp, len(texts))

    return find
