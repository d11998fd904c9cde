"""Arrays that are let go leave no memory behind."""

from __future__ import annotations

from pathlib import Path
from resource import getpagesize

import numpy as np
import pytest
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import full, zeros


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


@pytest.mark.parametrize("shape", [0, 7, (3, 0), (3, 4), 100_000, (50_000, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint64, np.bool_, object])
def test_arrays_are_those_of_numpy(shape: int | tuple[int, ...], dtype: type) -> None:
    made = zeros(shape, dtype)
    assert made.dtype == np.dtype(dtype)
    assert made.flags.writeable
    assert made.flags.c_contiguous
    assert np.array_equal(made, np.zeros(shape, dtype))
    assert np.array_equal(full(shape, 1, dtype), np.full(shape, 1, dtype))


def test_a_large_array_takes_memory_while_it_is_written_and_kept() -> None:
    size = 64 << 20
    before = resident()
    array = zeros(size // 8)
    untouched = resident()
    array[:] = 1.0
    touched = resident()
    del array
    assert untouched - before < size / 8
    assert touched - before > size * 0.9
    assert resident() - before < size / 8


def doubled(arrays: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Arrays of twice the size, all written, as those of a shard that grows."""
    larger = [zeros(2 * len(array)) for array in arrays]
    for old, new in zip(arrays, larger, strict=True):
        new[: len(old)] = old
        new[len(old) :] = 1.0
    return larger


def test_arrays_that_grow_leave_nothing_of_their_smaller_selves() -> None:
    for doublings in (8, 9, 10, 11):  # one shard after another, or the heap of numpy.zeros has nothing to keep yet
        arrays = [zeros(1 << 10) for _ in range(8)]
        before = resident()
        for _ in range(doublings):
            arrays = doubled(arrays)
        assert resident() - before < 1.03 * sum(array.nbytes for array in arrays)
