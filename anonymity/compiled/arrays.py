"""Arrays that give their memory back, and records of named numbers.

What ``numpy.zeros`` allocates may come from a heap that keeps it: a shard that grows by doubling would hold the memory
of all its smaller selves as well. Large arrays have pages of their own here, which go back to the system.
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


def record(whole: str, real: str = "") -> Any:
    """Named numbers that Python and compiled code read and write as attributes, all 0.

    Parameters
    ----------
    whole, real : names of int64 and of float64 numbers, with spaces between them; none may be an attribute of numpy's
        scalars, such as ``size``, which would be read in its place
    """
    kinds = [(name, np.int64) for name in whole.split()] + [(name, np.float64) for name in real.split()]
    if taken := [name for name, _ in kinds if hasattr(np.record, name)]:
        raise ValueError(f"a number of a record cannot have the name {', '.join(taken)}")
    return np.zeros(1, kinds).view(np.recarray)[0]
