"""What builders of hierarchies have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.hierarchy import HierarchyError

ROOT = "*"
"""The label above everything."""

MOST_LEAVES = 2**20
"""Most leaves of a built hierarchy, and most texts that a builder knows one by one."""

Finder: TypeAlias = Callable[[NDArray[Any]], NDArray[np.intp]]
"""(values,) to (values,) leaf of each, -1 where the hierarchy has none.

Numbers come as float64, or as float32 where the column holds no more; all else as objects, text or None. What it
returns for a number that is not finite means nothing.
"""


class BuilderError(HierarchyError):
    """Parameters from which no hierarchy can be built; the message says what would be valid.

    Attributes
    ----------
    field : the parameter's name
    """

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


class Builder(ABC):
    """Builds a hierarchy, and finds the leaf of a value in it. A builder is frozen, and validates its parameters.

    Attributes
    ----------
    kind : of values that it is for: ``number``; else texts, of a ``date`` (a day, ISO 8601), an ``address``, or any
        ``text``
    """

    kind: ClassVar[Literal["number", "date", "address", "text"]]

    @abstractmethod
    def paths(self) -> list[tuple[str, ...]]:
        """One path a leaf, from the leaf to ``ROOT``, with a label for each level.

        They stand in the order of the leaves of ``crenel.anonymity.model.hierarchy.from_paths``.
        """

    @abstractmethod
    def finder(self) -> Finder:
        """Made once, for many batches of values."""
