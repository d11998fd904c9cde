"""Invariants on any stream and under any policy, judged by the checker."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.buffer.release_buffer import delay_of_bucket
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.outcomes import LINKABLE
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from tests.support.deadlines import last_time
from tests.support.drive import KEY, Setting, columns_of, hashes, in_blocks, judged, judged_as_restored, steps_of
from tests.support.example_counts import FEW, LAWS
from tests.support.source import IDENTITY, Row
from tests.support.strategies import ONE_BY_ONE, Case, cases, cuts


def check_cut_and_restores(case: Case, cut: tuple[int, ...], restores: Container[int]) -> None:
    """Require that a stream in blocks, restored after some steps, leaves as it does tuple by tuple and never stored."""
    # One by one the checker knows when each tuple left, and what had been seen by then.
    expected, counters, _ = judged(case.setting, case.steps(ONE_BY_ONE))
    found, again = judged_as_restored(case.setting, case.steps(cut), restores, ("blocks", "gamma"))
    assert columns_of(found) == columns_of(expected)
    assert again.delays.tolist() == counters.delays.tolist()
    assert replace(again, delays=counters.delays) == counters


@given(cases(timed=True, delay=Delay(event_time=7)), cuts)
@LAWS
def test_event_time_bounds_the_delay_however_late_tuples_come(case: Case, cut: tuple[int, ...]) -> None:
    judged(case.setting, case.steps(cut))


@given(cases(loss_window=100, reuse_limit=2, delay=Delay(4)), cuts)
@FEW
def test_reuse_hands_out_what_omega_holds_and_the_oldest_leaves_first(case: Case, cut: tuple[int, ...]) -> None:
    judged(case.setting, case.steps(cut))


@given(cases(reuse_limit=0))
@FEW
def test_nothing_is_reused_where_nothing_may_be_kept(case: Case) -> None:
    _, counters, _ = judged(case.setting, case.steps())
    assert counters.releases["reused"] == 0


@given(cases(suppression="generalize"), cuts)
@FEW
def test_generalize_publishes_every_tuple_but_those_that_confidence_withholds(case: Case, cut: tuple[int, ...]) -> None:
    _, counters, checker = judged(case.setting, case.steps(cut))
    linkable = counters.suppressed.get(LINKABLE, 0)
    assert counters.released == len(case.rows) - linkable
    assert sum(counters.suppressed.values()) == counters.releases["generalized"] + linkable
    assert checker.reasons.keys() <= {LINKABLE}


@given(cases(timed=True, delay=Delay(None, 20), max_clusters=2), cuts)
@FEW
def test_a_restored_shard_remembers_who_left_before_older_tuples(case: Case, cut: tuple[int, ...]) -> None:
    # By event time a tuple may leave its cluster alone while older ones of its block wait: restored after each step.
    check_cut_and_restores(case, cut, range(1000))


@given(cases(), st.binary(min_size=32, max_size=32))
@FEW
def test_the_same_key_repeats_a_run_and_another_is_as_lawful(case: Case, key: bytes) -> None:
    first, counters, _ = judged(case.setting, case.steps(), key)
    second, again, _ = judged(case.setting, case.steps(), key)
    judged(case.setting, case.steps(), KEY)
    assert columns_of(first) == columns_of(second)
    assert replace(counters, delays=again.delays) == again


@given(cases(timed=True), cuts)
@FEW
def test_the_next_deadline_is_the_earliest_of_those_that_wait(case: Case, cut: tuple[int, ...]) -> None:
    castle, checker = case.setting.shard(), case.setting.checker()
    of = case.setting.algorithm
    for step, out in steps_of(case.setting, castle, case.steps(cut)):
        checker.observe(step, out)
        expected = None
        if of.delay.event_time is not None and checker.waiting:
            times = {position: checker.rows[position].event_time for position in checker.waiting}
            expected = min(last_time(KEY, p, t, of.delay.event_time, of.delay.jitter) for p, t in times.items())
        assert castle.next_deadline == expected


@given(
    st.integers(2, 6),
    st.lists(st.integers(1000, 2**40), min_size=6, max_size=60, unique=True),
    st.binary(min_size=32, max_size=32),
)
@FEW
def test_nothing_raw_leaves_but_the_ends_of_intervals(k: int, drawn: list[int], key: bytes) -> None:
    # Values like no count and no number of anything: what turns up in a release is raw.
    policy = Policy({"age": Numeric(), "pay": Numeric((0, 2**41))}, passthrough=(IDENTITY,), subject="who")
    setting = Setting(policy, Privacy(k), Castle(Delay(5), max_clusters=3), (pa.int64(),))
    rows = [Row((x + 0.25, x + 0.75), (-1 - i,), subject=x + 2**50) for i, x in enumerate(drawn)]
    outputs, _, _ = judged(setting, in_blocks(rows, 7), key)
    raw = {value for row in rows for value in (*row.values, row.subject)}
    raw.update(hashes(row.subject for row in rows).tolist())
    columns = columns_of(outputs)
    for low, high in zip(columns.pop("lower"), columns.pop("upper"), strict=True):
        # All values differ: an interval of one value would be one person's.
        assert all(a < b for a, b in zip(low, high, strict=True))
    for values in columns.values():
        assert raw.isdisjoint(np.ravel(values).tolist())


@pytest.mark.parametrize("delay", [0, 1, 63, 64, 65, 127, 128, 999, 70_000])
def test_delays_are_counted_within_a_thirty_second_part(delay: int) -> None:
    # Each value has a cluster of its own while there is room, and leaves after exactly its delay, or at the end.
    setting = Setting(
        Policy({"age": Numeric()}, passthrough=(IDENTITY,)),
        Privacy(1),
        Castle(Delay(delay), max_clusters=1, reuse_limit=0),
        (pa.int64(),),
    )
    castle = setting.shard()
    castle.push(setting.block([Row((float(i),), (i,)) for i in range(delay + 1)]))
    counters = castle.counters
    # The oldest expires and takes along all that came after it.
    assert counters.longest_delay == delay
    assert counters.delays.sum() == delay + 1
    bounds = [delay_of_bucket(bucket) for bucket in range(len(counters.delays) + 1)]
    for bucket, count in enumerate(counters.delays):
        assert count == max(0, min(bounds[bucket + 1], delay + 1) - bounds[bucket])
        assert bounds[bucket + 1] - bounds[bucket] <= max(1, bounds[bucket] / 32)
