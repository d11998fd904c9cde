"""The operator of windows between Flink and the core, in a fake runtime."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.outputs import REPAIRS, WINDOWS
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.privacy import Privacy
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import END, ShardFunction
from crenel.state.block import Block
from crenel.state.codec import StateError
from tests.support.fakes import FakeRuntime, Harness
from tests.support.operator_stream import KEY, MEMBERS, TREE, block, left, planned, visits, with_terms

MEASURED = ("milliseconds", "repairs_per_second")


def plan(**window: object) -> AnonymizationPlan:
    """Three values of three: hardly a group has them, so most must be repaired."""
    parameters = Suhdsa(**{"tuples": 20} | window)  # type: ignore[arg-type]
    return with_terms(planned(parameters), privacy=Privacy(3, 3))


def started(runtime: FakeRuntime | None = None, **window: object) -> Harness:
    return Harness(ShardFunction(plan(**window)), runtime)


def records(harness: Harness, side: str) -> list[dict[str, object]]:
    """Return the records of a side output by column, except measurements of the clock."""
    columns = {"repairs": REPAIRS, "windows": WINDOWS}[side].columns
    found = [dict(zip(columns, record, strict=True)) for record in harness.side.get(side, [])]
    return [{name: value for name, value in record.items() if name not in MEASURED} for record in found]


def test_a_generalization_has_two_ends_and_a_representative_one_value() -> None:
    for output, columns in (("generalization", 2), ("representative", 1)):
        harness = started(output=output)
        harness.element(KEY, block(0, 100).to_bytes())
        assert harness.main
        for release in harness.main:
            *_, group, illness, visit = release
            ages = release[8 : 8 + columns]
            assert len(release) == 8 + columns + 3
            assert (group in TREE.labels, len(visit) >= 3) == (True, True)
            assert len(illness) == len(visit)
            assert all(isinstance(age, int if columns == 2 else float) and 0 <= age <= 100 for age in ages)
    # Means of whole numbers.
    assert any(release[8] != round(release[8]) for release in harness.main)


def test_a_timer_closes_the_window_whose_event_time_has_passed() -> None:
    harness = started(tuples=None, event_time=60_000)
    harness.element(KEY, block(100, 50).to_bytes())
    assert harness.runtime.timers == {(END, KEY), (160_000, KEY)}
    assert not harness.main
    harness.advance(160_000)
    assert harness.main
    assert [window["tuples"] for window in records(harness, "windows")] == [50]
    # A carried tuple has a deadline of its own.
    carried = sorted(set(range(100, 150)) - set(left(harness)))
    expected = {(carried[0] * 1000 + 120_000, KEY)} if carried else set()
    assert harness.runtime.timers == {(END, KEY), *expected}


def test_a_window_that_is_over_when_its_tuples_come_closes_at_once() -> None:
    harness = started(tuples=None, event_time=1000)
    harness.advance(10_000_000)
    harness.element(KEY, block(0, 40).to_bytes())
    assert left(harness) == list(range(40))


def test_a_window_is_told_with_what_became_of_its_tuples() -> None:
    harness = started()
    for first in range(0, 200, 50):
        harness.element(KEY, block(first, 50, shard=4).to_bytes())
    windows, repairs = records(harness, "windows"), records(harness, "repairs")
    assert [window["window"] for window in windows] == list(range(len(windows)))
    assert len(windows) > 5
    releases = iter(harness.main)
    done = Counter((repair["window"], repair["action"]) for repair in repairs)
    for window in windows:
        mine = [next(releases) for _ in range(int(window["releases"]))]  # type: ignore[call-overload]
        assert window["event_time"] == max((release[2] for release in mine), default=None)
        assert sum(release[5] for release in mine) + window["carried"] == window["tuples"]  # type: ignore[operator]
        assert (done[window["window"], "swap"], done[window["window"], "merge"]) == (window["swaps"], window["merges"])
        assert (window["shard"], window["lsr"], window["target"]) == (4, 1.0, 3)
    assert next(releases, None) is None
    assert {repair["action"] for repair in repairs} == {"swap", "merge"}
    times = {window["window"]: window["event_time"] for window in windows}
    for repair in repairs:
        assert (repair["shard"], repair["event_time"]) == (4, times[repair["window"]])
        assert repair["diversity_before"] < 3  # type: ignore[operator]
        assert repair["inspected"] >= 1  # type: ignore[operator]


LOGS = frozenset({"repairs"})
LOGGED = {
    "suhdsa": lambda: plan(),
    "castle": lambda: with_terms(planned(Castle(Delay(20), reuse_limit=20)), logs=LOGS),
    "nearest": lambda: with_terms(planned(Nearest(Delay(20), reuse_limit=20)), logs=LOGS),
}


@pytest.mark.parametrize("algorithm", LOGGED)
def test_no_record_of_a_repair_or_a_window_holds_a_value_of_a_tuple(algorithm: str) -> None:
    made = LOGGED[algorithm]()
    # The record would differ for other values, but not for values in the same order and as far apart.
    other_tree = from_paths([("w", "wx", "any"), ("x", "wx", "any"), ("y", "yz", "any"), ("z", "yz", "any")])
    attributes = {"age": Numeric((FAR, FAR + 100), 1), "group": Categorical(other_tree)}
    disguise = dataclasses.replace(made.context.policy, quasi_identifiers=attributes)
    runs = []
    for policy, make in ((made.context.policy, block), (disguise, disguised)):
        harness = Harness(ShardFunction(with_terms(made, policy=policy)))
        for first in range(0, 200, 50):
            harness.element(KEY, make(first, 50).to_bytes())
        harness.advance(END)
        logs = {output.name: unmeasured(harness, output.name) for output in made.algorithm.outputs}
        runs.append((logs, harness.main))
    (logs, members), (other_logs, other_members) = runs
    assert all(logs.values())
    assert members != other_members
    assert logs == other_logs


def unmeasured(harness: Harness, side: str) -> list[list[object]]:
    """Return the records of a side output, without measurements of the clock."""
    if side == "windows":
        return [list(record.values()) for record in records(harness, side)]
    return harness.side.get(side, [])


FAR = 2**20


def disguised(first: int, count: int) -> Block:
    """Return the tuples of ``block`` with other values in every column but event time."""
    tuples = block(first, count)
    assert tuples.subject is not None
    members = tuples.members.to_pydict()
    return dataclasses.replace(
        tuples,
        numeric=tuples.numeric + FAR,
        subject=tuples.subject + np.uint64(FAR),
        sensitive=tuples.sensitive + np.uint64(FAR),
        members=pa.record_batch(
            [pa.array([f"other {x}" for x in members["illness"]]), pa.array([x + FAR for x in members["visit"]])],
            schema=MEMBERS,
        ),
    )


def test_what_a_window_took_is_measured() -> None:
    harness = started()
    harness.element(KEY, block(0, 100).to_bytes())
    for record in harness.side["windows"]:
        window = dict(zip(WINDOWS.columns, record, strict=True))
        assert window["milliseconds"] > 0
        rate = (window["swaps"] + window["merges"]) / window["milliseconds"] * 1000
        assert window["repairs_per_second"] == pytest.approx(rate)


def test_windows_and_repairs_are_counted() -> None:
    harness = started()
    harness.element(KEY, block(0, 90, shard=2).to_bytes())
    harness.advance(END)
    amounts = {name: amount for shard, name, amount in harness.side["summary"] if shard == 2}
    assert amounts["released"] == len(visits(harness))
    assert amounts["windows"] == len(harness.side["windows"])
    actions = Counter(repair["action"] for repair in records(harness, "repairs"))
    assert (amounts["swaps"], amounts["merges"]) == (actions["swap"], actions["merge"])
    assert (amounts["parameter.k"], amounts["parameter.l"]) == (3, 3)


def test_metrics_count_steps_and_show_how_shards_stand() -> None:
    harness = started()
    harness.element(KEY, block(0, 70).to_bytes())
    harness.element(KEY + 1, block(70, 10, shard=1).to_bytes())
    known = harness.runtime.metrics.known
    assert known["crenel.tuples_in"].count == 80
    assert known["crenel.released"].count == len(visits(harness))
    assert known["crenel.windows"].count == len(harness.side["windows"])
    assert known["crenel.swaps"].count + known["crenel.merges"].count == len(harness.side["repairs"])
    assert known["crenel.buffered"]() == 80 - len(left(harness))
    assert known["crenel.carried"]() == records(harness, "windows")[-1]["carried"]
    assert known["crenel.oldest_waiting"]() > 0
    assert known["crenel.target"]() == 3
    assert 0 < known["crenel.mean_loss_x1000"]() <= 1000
    assert "crenel.tau_x1000" not in known


def test_state_of_castle_is_refused() -> None:
    runtime = FakeRuntime()
    started(runtime).element(KEY, block(0, 10).to_bytes())
    castle = planned(Castle(Delay(20)))
    with pytest.raises(StateError, match="suhdsa state"):
        Harness(ShardFunction(castle), runtime).element(KEY, block(10, 10).to_bytes())
