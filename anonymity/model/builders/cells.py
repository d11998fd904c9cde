"""Hierarchies of places by cells whose codes are prefixes of the codes of all cells inside: geohash and quadkey."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import BuilderError
from crenel.anonymity.model.builders.codes import Codes, Ranges
from crenel.anonymity.model.fields import Items, Positive, about, setting

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Digits as ``int`` reads them."""


@setting
class PrefixCells(Codes):
    """Cells of a grid by the length of their codes; a cell contains exactly the cells whose codes begin with its own.

    Attributes
    ----------
    levels : lengths of codes from 1, beginning with the leaves, each shorter than the one before; at most 2^24 leaves
    within : codes of the cells that contain all known values; one may lie inside another. Empty: the whole world
    """

    levels: Annotated[Items[Positive], about("lengths of codes, the leaves first, such as [6, 5, 4, 3]")]
    within: Annotated[Items[str], about("codes that contain all values, such as [u4pr, u4px]")] = ()

    alphabet: ClassVar[str]
    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        if not self.levels or self.levels[-1] < 1 or any(fewer >= more for more, fewer in pairwise(self.levels)):
            raise BuilderError("levels", "must be lengths from 1, each shorter than the one before, as [6, 5, 4]")
        if not all(area and set(area) <= set(self.alphabet) for area in self.within):
            raise BuilderError("within", f"must be codes of the characters {self.alphabet}, none of them empty")
        self.require_few("within", "name smaller areas, or begin levels with a shorter code")

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(self.alphabet) ** (self.levels[0] - length) for length in self.levels)

    @property
    def ranges(self) -> Ranges:
        return Ranges(map(self._inside, self.within or [""]))

    def codes(self, texts: NDArray[Any]) -> NDArray[np.int64]:
        length, known, areas = self.levels[0], frozenset(self.alphabet), tuple(self.within) or ("",)

        def code(text: str | None) -> int:
            if text is None or len(text) < length or not known.issuperset(text) or not text.startswith(areas):
                return -1
            return self._code(text[:length])

        return np.fromiter(map(code, texts), np.int64, len(texts))

    def labels(self, level: int, codes: NDArray[np.int64]) -> list[str]:
        widths = len(self.alphabet) ** np.arange(self.levels[level])[::-1]
        digits = codes[:, None] // widths % len(self.alphabet)
        letters = np.array(list(self.alphabet))[digits]
        return letters.view(f"U{self.levels[level]}").ravel().tolist() if len(codes) else []

    def node(self, label: str) -> tuple[int, int] | None:
        if len(label) not in self.levels or not set(label) <= set(self.alphabet):
            return None
        return self.levels.index(len(label)), self._code(label)

    def _inside(self, area: str) -> tuple[int, int]:
        """Return the range of the leaves inside an area; one that is smaller than a leaf has the leaf around it."""
        length = self.levels[0]
        width = len(self.alphabet) ** max(length - len(area), 0)
        start = self._code(area[:length]) * width if area else 0
        return start, start + width

    def _code(self, cell: str) -> int:
        base = len(self.alphabet)
        return int(cell.translate(str.maketrans(self.alphabet, _DIGITS[:base])), base)


@setting
class Geohash(PrefixCells):
    """A hierarchy of places by geohash, in lower case; a cell has 32 cells of the next length inside.

    Attributes
    ----------
    levels : lengths of codes, each shorter than the one before, the leaves first; longer values are cut
    within : codes of cells that contain all values, such as ``"u4pr"``; 2^24 leaves at most. Empty: the whole world
    """

    alphabet: ClassVar[str] = "0123456789bcdefghjkmnpqrstuvwxyz"


@setting
class Quadkey(PrefixCells):
    """A hierarchy of places by quadkey of map tiles; a tile has 4 tiles of the next zoom level inside.

    Attributes
    ----------
    levels : lengths of codes, each shorter than the one before, the leaves first; longer values are cut
    within : codes of tiles that contain all values, such as ``"1202"``; 2^24 leaves at most. Empty: the whole world
    """

    levels: Annotated[Items[Positive], about("lengths of codes, the leaves first, such as [14, 12, 10]")]
    within: Annotated[Items[str], about("codes that contain all values, such as ['1202', '1203']")] = ()

    alphabet: ClassVar[str] = "0123"
