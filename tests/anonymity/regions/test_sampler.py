"""A sample is of the first tuples, or of all of them alike."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.regions.learn import Sampler
from crenel.state.block import Block
from tests.support.example_counts import LAWS

_NONE = pa.record_batch([], schema=pa.schema([]))


def block(numbers: range) -> Block:
    """Tuples that are the same number in each column."""
    column = np.array(numbers).reshape(-1, 1)
    return Block(
        shard=0,
        numeric=column.astype(np.float64),
        categorical=column.astype(np.int32),
        subject=None,
        sensitive=np.zeros((len(column), 0), np.uint64),
        event_time=np.zeros(len(column), np.int64),
        members=pa.record_batch([pa.array(numbers)], names=["id"]),
    )


def sampled(sizes: list[int], rows: int, *, first: bool) -> list[int]:
    sampler, start = Sampler(rows, first=first), 0
    for size in sizes:
        sampler.add(block(range(start, start + size)))
        start += size
    assert sampler.seen == start
    if sampler.sample is None:
        assert start == 0
        return []
    assert sampler.sample.numeric.tolist() == sampler.sample.categorical.tolist()
    return sorted(sampler.sample.numeric[:, 0].astype(int).tolist())


@given(st.lists(st.integers(0, 9)), st.integers(1, 30))
@LAWS
def test_of_a_source_without_an_end_the_first_tuples_are_kept(sizes: list[int], rows: int) -> None:
    assert sampled(sizes, rows, first=True) == list(range(min(rows, sum(sizes))))


@given(st.lists(st.integers(0, 9)), st.integers(1, 30))
@LAWS
def test_of_others_as_many_are_kept_however_they_come_in_blocks(sizes: list[int], rows: int) -> None:
    kept = sampled(sizes, rows, first=False)
    assert len(set(kept)) == len(kept) == min(rows, sum(sizes))
    assert set(kept) <= set(range(sum(sizes)))
    assert kept == sampled([sum(sizes)], rows, first=False)


def test_no_part_of_a_source_is_preferred() -> None:
    kept = np.array(sampled([100] * 100, 1000, first=False))
    parts = np.bincount(kept // 1000, minlength=10)
    assert 60 <= parts.min() <= parts.max() <= 140  # four standard deviations


def test_it_is_full_with_the_first_tuples_alone() -> None:
    for first in (True, False):
        sampler = Sampler(3, first=first)
        sampler.add(block(range(2)))
        assert not sampler.full
        sampler.add(block(range(2)))
        assert sampler.full == first
