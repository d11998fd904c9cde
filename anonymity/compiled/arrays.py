"""Arrays in pages of their own, which go back to the system when they are let go.

What ``numpy.zeros`` allocates may come from a heap that keeps it: a shard that grows by doubling would hold the memory
of all its smaller selves as well.
"""

from __future__ import annotations

from math import prod
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LEAST = 1 << 16
"""Bytes from which an array is worth pages of its own."""


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """As ``numpy.zeros``; a page takes memory once something is written to it."""
    kind = np.dtype(dtype)
    size = kind.itemsize * (shape if isinstance(shape, int) else prod(shape))
    if size < _LEAST or kind.hasobject:
        return np.zeros(shape, kind)
    return np.frombuffer(mmap(-1, size), kind).reshape(shape)


def full(shape: int | tuple[int, ...], value: float, dtype: DTypeLike) -> NDArray[Any]:
    """As ``numpy.full``."""
    made = zeros(shape, dtype)
    made[...] = value
    return made
