"""Arrays that return their memory to the system, records, and loops over numbers side by side.

``numpy.zeros`` may allocate from a heap that keeps freed memory: a shard that grows by doubling would keep the memory
of all its earlier sizes. Large arrays therefore have pages of their own, which return to the system.
"""

from __future__ import annotations

from collections import namedtuple
from math import prod
from mmap import mmap
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from crenel.anonymity.compiled.jit import Int, inner_leaf, leaf, procedure

T = TypeVar("T")

_LEAST = 1 << 16
"""Minimum size in bytes of an array with pages of its own."""


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an array of zeros, as ``numpy.zeros`` does; a page takes memory once something is written to it."""
    kind = np.dtype(dtype)
    size = kind.itemsize * (shape if isinstance(shape, int) else prod(shape))
    if size < _LEAST or kind.hasobject:
        return np.zeros(shape, kind)
    return np.frombuffer(mmap(-1, size), kind).reshape(shape)


def full(shape: int | tuple[int, ...], value: float, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array filled with a value, as ``numpy.full`` does."""
    made = zeros(shape, dtype)
    made[...] = value
    return made


def record(integers: str, reals: str = "") -> Any:
    """Return named numbers, all 0, that Python and compiled code read and write as attributes.

    Parameters
    ----------
    integers, reals : names of int64 and of float64 numbers, separated by spaces. A name must not be an attribute of
        numpy's scalars, such as ``size``, which would take precedence
    """
    kinds = [(name, np.int64) for name in integers.split()] + [(name, np.float64) for name in reals.split()]
    if taken := [name for name, _ in kinds if hasattr(np.record, name)]:
        raise ValueError(f"a number of a record cannot have the name {', '.join(taken)}")
    return np.zeros(1, kinds).view(np.recarray)[0]


def extended(shape: type[T]) -> type[T]:
    """Return a NamedTuple with the fields of the base of a class, a NamedTuple, followed by those of the class itself.

    A NamedTuple cannot be extended, and compiled code needs one. To a type checker the result is a subclass of the
    base, so a function that takes records of the base takes these as well.
    """
    hints, base = get_type_hints(shape), shape.__mro__[1]
    fields = (*base._fields, *(name for name in hints if name not in base._fields))  # type: ignore[attr-defined]
    create: Any = namedtuple  # a type checker accepts constant names only
    made = create(shape.__name__, fields, module=shape.__module__)
    made.__doc__, made.__annotations__ = shape.__doc__, {name: hints[name] for name in fields}
    return made


def extend(shape: type[T], record: Any, **fields: Any) -> T:
    """Return a record of an ``extended`` class: the fields of another record, replaced and followed by ``fields``."""
    return shape(**{**record._asdict(), **fields})


LANES = 32
"""Numbers per turn of a loop over numbers side by side: four vectors of eight.

Handling the remainder of such a loop one by one would cost as much as the rest for about fifty numbers. So loops run
over whole ``LANES``. The arrays have room for them, and results beyond the count are ignored.
"""


def with_room(count: int) -> int:
    """Return the array length that loops over ``count`` numbers in whole ``LANES`` need."""
    return -(-count // LANES) * LANES


@inner_leaf
def loop_end(count: Int) -> np.uint64:
    """Return the end of a loop over the first ``count`` numbers in whole ``LANES``, for compiled code."""
    return np.uint64((count + (LANES - 1)) & -LANES)


@leaf
def least(values: NDArray[np.float64], count: Int) -> float:
    """Return the minimum of the first ``count`` numbers, infinite without any.

    Numbers behind them, up to whole ``LANES``, are overwritten with infinity.
    """
    stop = np.int64(loop_end(count))
    for i in range(count, stop):
        values[i] = np.inf
    one = two = three = four = np.inf
    for i in range(0, stop, 8):  # four at once, because each comparison waits for the one before it
        first = values[i] if values[i] < values[i + 4] else values[i + 4]
        second = values[i + 1] if values[i + 1] < values[i + 5] else values[i + 5]
        third = values[i + 2] if values[i + 2] < values[i + 6] else values[i + 6]
        fourth = values[i + 3] if values[i + 3] < values[i + 7] else values[i + 7]
        one = first if first < one else one
        two = second if second < two else two
        three = third if third < three else three
        four = fourth if fourth < four else four
    one = two if two < one else one
    three = four if four < three else three
    return three if three < one else one


_RUN = 16
"""Number of adjacent keys that are sorted by insertion before they are merged."""


@procedure
def stable_order(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices of a stable sort, for compiled code: numpy's sorts take five times as long to compile."""
    count = len(keys)
    order, merged = np.empty(count, np.int64), np.empty(count, np.int64)
    for begin in range(0, count, _RUN):
        for i in range(begin, min(begin + _RUN, count)):
            place = i
            while place > begin and keys[i] < keys[order[place - 1]]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
    width = _RUN
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, stop = min(begin + width, count), min(begin + 2 * width, count)
            left, right = begin, middle
            for place in range(begin, stop):
                if right == stop or (left < middle and not keys[order[right]] < keys[order[left]]):
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
