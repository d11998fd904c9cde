"""Replays of a sample, compared with the shards themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.compiled.random import shard_key
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.replay import Replayed, Totals, replay, replay_outputs
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.state.block import NO_TIME, Block
from tests.support.drive import Setting as Driven
from tests.support.nearest_drive import nearest_cases
from tests.support.strategies import Case, cases

IDENTITY = -1
"""The last published column of a case's rows, which no two share."""


def sample_of(setting: Driven, case: Case, size: int = 7) -> Sample:
    rows = case.rows
    blocks = [setting.block(rows[i : i + size]) for i in range(0, max(len(rows), 1), size)]
    return Sample.of_blocks(setting.policy, blocks)


def setting_of(case: Case, shards: int = 1) -> ReplaySetting:
    of = case.setting
    return ReplaySetting(of.algorithm, of.privacy, Shards(shards), 5, of.sampling_and_noise)


def contains(sample: Sample, replayed: Replayed) -> None:
    """Require that each released row lies in its published generalization."""
    released, row = replayed.outputs.released, replayed.row
    numeric = categorical = 0
    for attribute in sample.policy.attributes:
        if isinstance(attribute, Numeric):
            value = sample.tuples.numeric[row, numeric]
            numeric += 1
            assert (released[f"{attribute.name}_min"].to_numpy() <= value).all()
            assert (value <= released[f"{attribute.name}_max"].to_numpy()).all()
        else:
            leaves = sample.tuples.categorical[row, categorical]
            categorical += 1
            tree = attribute.hierarchy
            nodes = pc.index_in(released[attribute.name], pa.array(tree.labels)).to_numpy()
            for node, leaf in zip(nodes.tolist(), leaves.tolist(), strict=True):
                assert tree.lowest_common_ancestor(node, leaf) == node


@given(case=st.one_of(cases(), nearest_cases()), shards=st.sampled_from((1, 3)))
def test_each_tuple_is_in_its_own_release_or_suppressed_once(case: Case, shards: int) -> None:
    sample, setting = sample_of(case.setting, case), setting_of(case, shards)
    replayed = replay_outputs(sample, setting)
    outputs, totals = replayed.outputs, replayed.totals
    contains(sample, replayed)
    assert outputs.audit is not None
    assert outputs.suppressed is not None
    published = [row.published[IDENTITY] for row in case.rows]
    name = sample.policy.members[IDENTITY]
    assert outputs.released[name].to_pylist() == [str(published[i]) for i in replayed.row.tolist()]
    assert sorted([*replayed.row.tolist(), *replayed.suppressed_row.tolist()]) == list(range(len(sample)))
    assert totals.tuples == len(sample) == totals.released + totals.unpublished
    reasons = pc.value_counts(outputs.suppressed["reason"]).to_pylist()
    if not totals.releases["generalized"]:
        assert {r["values"]: r["counts"] for r in reasons} == {k: v for k, v in totals.suppressed.items() if v}
    assert len(outputs.suppressed) == totals.unpublished

    # A row's release is the one of the audit log that says the same of it.
    audit = {(r["shard"], r["release_id"]): r for r in outputs.audit.to_pylist()}
    assert len(audit) == len(outputs.audit) == sum(totals.releases.values())
    members: dict[tuple[int, int], list[int]] = {key: [] for key in audit}
    for shard, release, row, out in zip(
        replayed.shard.tolist(),
        replayed.release.tolist(),
        replayed.row.tolist(),
        outputs.released.to_pylist(),
        strict=True,
    ):
        members[shard, release].append(row)
        entry = audit[shard, release]
        assert {column: out[column] for column in outputs.generalization} == {
            column: entry[column] for column in outputs.generalization
        }
    for key, rows in members.items():
        entry = audit[key]
        assert len(rows) == entry["tuples"]
        if entry["kind"] not in ("reused", "generalized", "again"):
            people = rows if sample.tuples.subject is None else sample.tuples.subject[rows].tolist()
            assert len(set(people)) == entry["subjects"] >= setting.privacy.k


@given(case=st.one_of(cases(), nearest_cases()))
def test_a_replay_is_what_a_shard_makes_of_one_block_on_which_the_watermark_rides(case: Case) -> None:
    sample, setting = sample_of(case.setting, case), setting_of(case)
    shard = setting.algorithm.new(case.setting.terms(), 0, shard_key(setting.seed, 0))
    block = case.setting.block(case.rows)
    passed = np.maximum.accumulate(np.concatenate([[NO_TIME], block.event_time]))
    steps = (
        shard.push(replace(block, watermark=passed[:-1])),
        shard.advance(int(passed[-1])),
        shard.finish(),
    )
    parts = [step.releases for step in steps]
    totals, counters = replay(sample, setting), shard.counters
    replayed = replay_outputs(sample, setting)
    assert replayed.outputs.audit is not None
    for name in ("loss", "subjects", "tuples", "release_id"):
        found = replayed.outputs.audit[name].to_pylist()
        assert found == [x for part in parts for x in getattr(part, name).tolist()]
    assert without_time(totals) == without_time(replayed.totals)
    assert (totals.released, totals.suppressed) == (counters.released, counters.suppressed)
    if totals.delay is not None:
        assert totals.delay.longest == counters.longest_delay
        assert totals.delay.p50 <= totals.delay.p99 <= totals.delay.longest


def without_time(totals: Totals) -> Totals:
    """But for when tuples left, which is known to within a step."""
    return replace(totals, seconds=0, sample_delay=None, event_delay=None)


def timed(times: np.ndarray, lag: int = 0) -> Sample:  # type: ignore[type-arg]
    """Tuples of one number each, all different, that came at these times."""
    count = len(times)
    policy = Policy({"x": Numeric((0.0, 100.0))}, event_time="at")
    block = Block(
        shard=0,
        numeric=np.linspace(0, 100, count).reshape(-1, 1),
        categorical=np.zeros((count, 0), np.int32),
        subject=None,
        sensitive=np.zeros((count, 0), np.uint64),
        event_time=times.astype(np.int64),
        members=pa.record_batch([], schema=pa.schema([])),
    )
    return Sample.of_blocks(policy, [block], lag=lag)


@given(
    gap=st.sampled_from((1, 50, 1000)),
    window=st.sampled_from((16_000, 64_000)),
    lag=st.sampled_from((0, 5_000, 200_000)),
    shards=st.sampled_from((1, 4)),
)
def test_windows_of_event_time_close_when_the_watermark_has_passed(
    gap: int, window: int, lag: int, shards: int
) -> None:
    end = 400_000
    sample = timed(np.arange(0, end, gap if gap > 1 else 100), lag)
    setting = ReplaySetting(Suhdsa(event_time=window), Privacy(1), Shards(shards))
    replayed = replay_outputs(sample, setting)
    waited = replayed.totals.event_delay
    assert waited is not None
    # The first of a window waits for all of it and for the watermark, and for one step more at most.
    step = max(window // 8, end * shards // 2000 + 1) + gap
    assert window + lag - step <= waited.longest <= window + lag + 2 * step
    assert sum(replayed.totals.releases.values()) >= (end - lag) // (window + step) - 1
    assert replace(replay(sample, setting), seconds=0) == replace(replayed.totals, seconds=0)


@given(st.sampled_from((100, 1_000)), st.sampled_from((1_000, 60_000)))
def test_a_delay_in_tuples_is_told_in_event_time_too(tuples: int, gap: int) -> None:
    sample = timed(np.arange(5_000) * gap)
    waited = replay(sample, ReplaySetting(Suhdsa(tuples=tuples), Privacy(2))).event_delay
    assert waited is not None
    assert abs(waited.longest - tuples * gap) <= 2 * max(tuples // 8, 16) * gap
    assert abs(waited.p50 - tuples * gap / 2) <= 2 * max(tuples // 8, 16) * gap


def test_an_empty_sample_gives_empty_tables() -> None:
    sample = timed(np.zeros(0))
    setting = ReplaySetting(Suhdsa(tuples=10), Privacy(2))
    totals = replay(sample, setting)
    assert (totals.tuples, totals.mean_loss, totals.delay, totals.fewest_subjects) == (0, None, None, None)
    outputs = replay_outputs(sample, setting).outputs
    assert outputs.released.column_names == ["x_min", "x_max"]
    assert outputs.audit is not None
    assert len(outputs.audit) == 0


def test_a_tuple_that_comes_late_does_not_set_the_clock_back() -> None:
    sample = timed(np.array([10, 30, 20, 40]), lag=5)
    assert sample.clock.tolist() == [10, 30, 30, 40]
    assert sample.watermark.tolist() == [5, 25, 25, 35]
    assert sample.milliseconds == 30
    assert len(sample.first(2)) == 2
