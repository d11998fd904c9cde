"""Hierarchies of places by H3 cells, computed from the 64 bits of an index as https://h3geo.org documents them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import MOST_LEAVES, ROOT, Builder, BuilderError, Finder

FINEST = 15
"""The finest resolution; an index has one digit of three bits for each resolution from 1."""

_RESOLUTION = 52
"""Position of the four bits of the resolution; those of the base cell and of the digits follow."""

_BASE, _BASES = 45, 122
"""Position of the seven bits of the base cell, and the number of base cells, which are the cells of resolution 0."""

_PENTAGONS = np.array([4, 14, 24, 38, 49, 58, 63, 72, 83, 97, 107, 117])
"""Base cells that are pentagons; a pentagon has no child with the digit 1."""

_UNUSED = 7
"""Digit of each resolution that is finer than the cell."""

_CELL = "^8[0-9a-f]{14}$"
"""Text of an index: 15 lower-case hexadecimal digits; the first says that it is an index of a cell."""

_WORLD: NDArray[np.int64] = 8 << 56 | np.arange(_BASES, dtype=np.int64) << _BASE | (1 << _BASE) - 1


@dataclass(frozen=True)
class H3(Builder):
    """Cells of H3 by resolution, with the index of a cell as its label, such as ``891f1d48947ffff``.

    A cell has those below it whose indices begin with its own base cell and digits. On the map they are about inside of
    it, and not exactly.

    Attributes
    ----------
    levels : resolutions from 15 to 0, beginning with the leaves, each coarser than the one before; at most 2^20 leaves
    within : indices of the cells that contain all known values; one may lie inside another. Empty: the whole world
    """

    levels: tuple[int, ...]
    within: tuple[str, ...] = ()

    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        outside = [level for level in self.levels if not 0 <= level <= FINEST]
        if not self.levels or outside or any(coarser >= finer for finer, coarser in pairwise(self.levels)):
            raise BuilderError(
                "levels", "must be resolutions from 15 to 0, each coarser than the one before, as [9, 8, 7]"
            )
        if (_cells(np.array(self.within, object)) < 0).any():
            raise BuilderError("within", "must be H3 indices in lower case, such as 871f1d489ffffff")
        leaves = sum(_below(area, self.levels[0]) for area in self._separate)
        if leaves > MOST_LEAVES:
            raise BuilderError(
                "within",
                f"makes {leaves} leaves, and a hierarchy has 2^20 at most; name smaller areas, or begin levels with a "
                "coarser resolution",
            )

    def paths(self) -> list[tuple[str, ...]]:
        leaves = self._leaves()
        labels = [[f"{cell:x}" for cell in _ancestors(leaves, level).tolist()] for level in self.levels]
        return list(zip(*labels, [ROOT] * len(leaves), strict=True))

    def finder(self) -> Finder:
        leaves, finest = self._leaves(), self.levels[0]
        areas = np.array(self._separate)
        resolutions = np.unique(_resolutions(areas)).tolist()

        def find(texts: NDArray[Any]) -> NDArray[np.intp]:
            cells = _cells(texts)
            known = _resolutions(cells) >= finest
            known &= np.any([np.isin(_ancestors(cells, level), areas) for level in resolutions], axis=0)
            return np.where(known, np.searchsorted(leaves, _ancestors(cells, finest)), -1)

        return find

    @property
    def _separate(self) -> list[int]:
        """The areas without those inside another, in ascending order; for the world, all base cells."""
        areas = np.unique(_cells(np.array(self.within, object))) if self.within else _WORLD
        inside = [
            (_resolutions(areas) > level) & np.isin(_ancestors(areas, level), areas[_resolutions(areas) == level])
            for level in range(FINEST)
        ]
        return areas[~np.any(inside, axis=0)].tolist()

    def _leaves(self) -> NDArray[np.int64]:
        """Return the cells of the leaves, in ascending order; areas that are smaller than a leaf may share one."""
        finest, areas = self.levels[0], np.array(self._separate)
        found = [_ancestors(areas[_resolutions(areas) >= finest], finest)]
        for resolution in range(finest):
            cells = areas[_resolutions(areas) == resolution]
            for level in range(resolution + 1, finest + 1):
                cells = _children(cells, level)
            found.append(cells)
        return np.unique(np.concatenate(found))


def _cells(texts: NDArray[Any]) -> NDArray[np.int64]:
    """Return (texts,) the index that each text states, and -1 for a text that is no index of a cell."""
    column = pa.array(texts, pa.string(), from_pandas=True)
    well_formed = pc.match_substring_regex(column, _CELL).fill_null(False).to_numpy(zero_copy_only=False)
    cells = np.full(len(texts), -1, np.int64)
    cells[well_formed] = [int(text, 16) for text in texts[well_formed]]
    cells[well_formed] = np.where(_is_cell(cells[well_formed]), cells[well_formed], -1)
    return cells


def _is_cell(cells: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether indices with the right first digit are those of cells that exist."""
    resolutions = _resolutions(cells)
    valid = _bases(cells) < _BASES
    at_center = np.isin(_bases(cells), _PENTAGONS)
    for level in range(1, FINEST + 1):
        digit = cells >> _shift(level) & 7
        valid &= (digit == _UNUSED) == (level > resolutions)
        valid &= ~(at_center & (digit == 1))
        at_center &= digit == 0
    return valid


def _below(cell: int, resolution: int) -> int:
    """Return the number of cells of a resolution at or below a cell; 1 for the one above a smaller cell."""
    one = np.array([cell])
    levels = max(resolution - int(_resolutions(one)[0]), 0)
    return 1 + 5 * (7**levels - 1) // 6 if _are_pentagons(one)[0] else 7**levels


def _children(cells: NDArray[np.int64], level: int) -> NDArray[np.int64]:
    """Return the cells of a resolution below cells of the next coarser one."""
    digits = np.arange(7)
    moved = (cells & ~(7 << _shift(level))) + (1 << _RESOLUTION)
    exists = ~(_are_pentagons(cells)[:, None] & (digits == 1))
    return np.asarray((moved[:, None] | digits << _shift(level))[exists], np.int64)


def _are_pentagons(cells: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether cells are pentagons: those of a pentagonal base cell whose digits are all 0."""
    unused = (1 << _BASE - 3 * _resolutions(cells)) - 1
    return np.isin(_bases(cells), _PENTAGONS) & ((cells & (1 << _BASE) - 1) == unused)


def _ancestors(cells: NDArray[np.int64], resolution: int) -> NDArray[np.int64]:
    """Return the cells of a resolution above cells of the same or a finer one."""
    kept = cells & ~(15 << _RESOLUTION) | resolution << _RESOLUTION
    return np.asarray(kept | (1 << _shift(resolution)) - 1, np.int64)


def _resolutions(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    return cells >> _RESOLUTION & 15


def _bases(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    return cells >> _BASE & 127


def _shift(level: int) -> int:
    """Return the position of the digit of a resolution."""
    return 3 * (FINEST - level)
