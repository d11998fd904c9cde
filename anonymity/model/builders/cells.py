"""Hierarchies of places by cells whose codes are prefixes of the codes of all cells inside: geohash and quadkey."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import MOST_LEAVES, ROOT, Builder, BuilderError, Finder


@dataclass(frozen=True)
class Cells(Builder):
    """Cells of a grid by the length of their codes; a cell contains exactly the cells whose codes begin with its own.

    Attributes
    ----------
    levels : lengths of codes from 1, beginning with the leaves, each shorter than the one before; at most 2^20 leaves
    within : codes of the cells that contain all known values; one may lie inside another. Empty: the whole world
    """

    levels: tuple[int, ...]
    within: tuple[str, ...] = ()

    alphabet: ClassVar[str]
    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        if not self.levels or self.levels[-1] < 1 or any(fewer >= more for more, fewer in pairwise(self.levels)):
            raise BuilderError("levels", "must be lengths from 1, each shorter than the one before, as [6, 5, 4]")
        if not all(area and set(area) <= set(self.alphabet) for area in self.within):
            raise BuilderError("within", f"must be codes of the characters {self.alphabet}, none of them empty")
        length = self.levels[0]
        leaves = sum(len(self.alphabet) ** max(length - len(area), 0) for area in self._separate)
        if leaves > MOST_LEAVES:
            raise BuilderError(
                "within",
                f"makes {leaves} leaves, and a hierarchy has 2^20 at most; name smaller areas, or begin levels with a "
                "shorter code",
            )

    def paths(self) -> list[tuple[str, ...]]:
        return [(*(leaf[:length] for length in self.levels), ROOT) for leaf in self._leaves()]

    def finder(self) -> Finder:
        number = {leaf: place for place, leaf in enumerate(self._leaves())}
        length, known, areas = self.levels[0], frozenset(self.alphabet), self._separate

        def find(texts: NDArray[Any]) -> NDArray[np.intp]:
            return np.fromiter(map(leaf_of, texts), np.intp, len(texts))

        def leaf_of(text: str | None) -> int:
            if text is None or len(text) < length or not known.issuperset(text) or not text.startswith(areas):
                return -1
            return number[text[:length]]

        return find

    @property
    def _separate(self) -> tuple[str, ...]:
        """The areas in order, without those inside another; the world has the empty code."""
        found: list[str] = []
        for area in sorted(self.within, key=self._indices) or [""]:
            if not found or not area.startswith(found[-1]):
                found.append(area)
        return tuple(found)

    def _indices(self, code: str) -> list[int]:
        return [self.alphabet.index(letter) for letter in code]

    def _leaves(self) -> list[str]:
        """Return the codes of the leaves, in order; areas that are smaller than a leaf may share one."""
        length = self.levels[0]
        return list(
            dict.fromkeys(
                (area + "".join(rest))[:length]
                for area in self._separate
                for rest in product(self.alphabet, repeat=max(length - len(area), 0))
            )
        )


@dataclass(frozen=True)
class Geohash(Cells):
    """Geohashes, in lower case; a cell has 32 cells of the next length inside."""

    alphabet: ClassVar[str] = "0123456789bcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True)
class Quadkey(Cells):
    """Quadkeys of map tiles; a tile has 4 tiles of the next zoom level inside."""

    alphabet: ClassVar[str] = "0123"
