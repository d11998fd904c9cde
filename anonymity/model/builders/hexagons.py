"""Hierarchies of places by H3 cells, computed from the 64 bits of an index as https://h3geo.org documents them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import BuilderError
from crenel.anonymity.model.builders.codes import Codes, Ranges
from crenel.anonymity.model.fields import Items, Natural, about, setting

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


@setting
class H3(Codes):
    """A hierarchy of places by H3 cell, with the index of a cell as its label, such as ``891f1d48947ffff``.

    A cell has those below it whose indices begin with its own base cell and digits. On the map they are about inside of
    it, and not exactly.

    Attributes
    ----------
    levels : resolutions from 15 to 0, each coarser than the one before, the leaves first; a finer value counts as its
        ancestor
    within : indices of cells that contain all values, such as ``"841f1d5ffffffff"``; 2^24 leaves at most. Empty: the
        whole world
    """

    levels: Annotated[Items[Natural], about("resolutions of H3, the leaves first, such as [9, 8, 7]")]
    within: Annotated[Items[str], about("H3 indices of cells with all values, such as [841f1d5ffffffff]")] = ()

    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        outside = [level for level in self.levels if not 0 <= level <= FINEST]
        if not self.levels or outside or any(coarser >= finer for finer, coarser in pairwise(self.levels)):
            raise BuilderError(
                "levels", "must be resolutions from 15 to 0, each coarser than the one before, as [9, 8, 7]"
            )
        if (_cells(np.array(self.within, object)) < 0).any():
            raise BuilderError("within", "must be H3 indices in lower case, such as 871f1d489ffffff")
        self.require_few("within", "name smaller areas, or begin levels with a coarser resolution")

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(7 ** (self.levels[0] - level) for level in self.levels)

    @property
    def ranges(self) -> Ranges:
        return Ranges(part for area in self._areas.tolist() for part in self._inside(area))

    def codes(self, texts: NDArray[Any]) -> NDArray[np.int64]:
        cells, finest = _cells(texts), self.levels[0]
        known = _resolutions(cells) >= finest
        resolutions = np.unique(_resolutions(self._areas)).tolist()
        known &= np.any([np.isin(_ancestors(cells, level), self._areas) for level in resolutions], axis=0)
        return np.where(known, _codes(cells, finest), -1)

    def labels(self, level: int, codes: NDArray[np.int64]) -> list[str]:
        return [f"{cell:x}" for cell in _from_codes(codes, self.levels[level]).tolist()]

    def node(self, label: str) -> tuple[int, int] | None:
        cell = _cells(np.array([label], object))
        resolution = int(_resolutions(cell)[0])
        if cell[0] < 0 or resolution not in self.levels:
            return None
        return self.levels.index(resolution), int(_codes(cell, resolution)[0])

    @cached_property
    def _areas(self) -> NDArray[np.int64]:
        return _cells(np.array(self.within, object)) if self.within else _WORLD

    def _inside(self, area: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the leaves inside an area; one that is smaller than a leaf has the leaf around it."""
        cell, finest = np.array([area]), self.levels[0]
        resolution = min(int(_resolutions(cell)[0]), finest)
        width = 7 ** (finest - resolution)
        begin = start = int(_codes(cell, resolution)[0]) * width
        if _are_pentagons(cell)[0]:
            # No cell below a pentagon has the digit 1 behind digits that are all 0.
            for level in range(finest - resolution):
                yield begin, start + 7**level
                begin = start + 2 * 7**level
        yield begin, start + width


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


def _codes(cells: NDArray[np.int64], resolution: int) -> NDArray[np.int64]:
    """Return the base cells and digits up to a resolution as one number each."""
    codes = _bases(cells)
    for level in range(1, resolution + 1):
        codes = codes * 7 + (cells >> _shift(level) & 7)
    return codes


def _from_codes(codes: NDArray[np.int64], resolution: int) -> NDArray[np.int64]:
    """Return the cells of a resolution, from the numbers of ``_codes``."""
    cells = np.full(len(codes), 8 << 56 | resolution << _RESOLUTION | (1 << _shift(resolution)) - 1, np.int64)
    for level in range(resolution, 0, -1):
        codes, digit = np.divmod(codes, 7)
        cells |= digit << _shift(level)
    return cells | codes << _BASE


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
