"""Arrays that are let go leave no memory behind, and compiled code reads and writes those of a shard."""

from __future__ import annotations

from pathlib import Path
from resource import getpagesize
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import full, record, stable_order, zeros
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.compiled.reference import share


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


class Part(NamedTuple):
    now: Any
    matrix: Any


class Whole(NamedTuple):
    flags: Any
    part: Part
    columns: Any


@entry
def _step(whole: Any, row: int) -> float:
    whole.part.now.calls += 1
    whole.part.now.latest = whole.columns[row, 1]
    whole.flags[row] = not whole.flags[row]
    whole.part.matrix[1, row] = whole.columns[row, 0]
    return float(whole.part.now.calls)


@pytest.mark.parametrize("order", ["C", "F"])
def test_compiled_code_reads_and_writes_shared_arrays(order: Any) -> None:
    columns = np.array([[1.5, 2.5], [3.5, 4.5], [5.5, 6.5]], order=order)
    whole = Whole(np.zeros(3, np.bool_), Part(record("calls", "latest"), np.zeros((2, 3), np.float32)), columns)
    described = share(whole)
    assert [_step(described, 2), _step(share(whole), 1)] == [1.0, 2.0]
    assert whole.flags.tolist() == [False, True, True]
    assert whole.part.matrix.tolist() == [[0, 0, 0], [0, 3.5, 5.5]]
    assert (whole.part.now.calls, whole.part.now.latest) == (2, 4.5)


def test_only_arrays_are_shared() -> None:
    with pytest.raises(TypeError, match="hold no float"):
        share(Part(1.0, np.zeros(1)))


@entry
def _order(keys: NDArray[Any]) -> NDArray[np.int64]:
    return stable_order(keys)


@given(st.lists(st.integers(-3, 3) | st.sampled_from((-(2**63), 2**63 - 1)), max_size=200))
@settings(deadline=None)
def test_equal_keys_keep_their_order(keys: list[int]) -> None:
    assert _order(np.array(keys, np.int64)).tolist() == sorted(range(len(keys)), key=keys.__getitem__)


@pytest.mark.parametrize("count", [0, 1, 16, 17, 32, 33, 100, 1000, 1024])
@pytest.mark.parametrize("dtype", [np.float64, np.uint64])
def test_an_order_is_that_of_numpy(count: int, dtype: type) -> None:
    keys = np.random.default_rng(count).integers(0, max(count // 3, 1), count).astype(dtype)
    assert np.array_equal(_order(keys), np.argsort(keys, kind="stable"))
