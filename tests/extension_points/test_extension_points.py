"""An algorithm and a promise that are each one file of the tests, through everything that Crenel does with its own."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.errors import ConfigError, PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.jobs.config.load import load
from crenel.operators.shards.function import END, ShardFunction
from crenel.state.shard import StoredShard
from examples.own_algorithm import InOrder
from examples.own_privacy_model import AT_MOST
from tests.extension_points.stream import CONFIGURATION
from tests.support.drive import KEY, PRINT, Setting, columns_of
from tests.support.example_counts import FEW
from tests.support.fakes import FakeRuntime, Harness
from tests.support.launch import ROOT
from tests.support.operator_stream import KEY as SHARD
from tests.support.operator_stream import block, left, planned
from tests.support.settings import models_of
from tests.support.source import IDENTITY, Finish, Push, Row

SHARE = 0.6
POLICY = Policy(
    {"x": Numeric((0, 100))}, sensitive=("illness",), passthrough=(IDENTITY,), subject="who", event_time="at"
)
MADE = {
    InOrder.name: InOrder(20),
    Castle.name: Castle(Delay(12), max_clusters=4, reuse_limit=1000),
    Mondrian.name: Mondrian(Window(20)),
}

rows = st.lists(
    st.tuples(st.integers(0, 100), st.sampled_from("aaabc"), st.integers(0, 8)), min_size=0, max_size=60
).map(lambda drawn: [Row((float(x),), (value, i), who, i) for i, (x, value, who) in enumerate(drawn)])
of_each_algorithm = pytest.mark.parametrize(
    "algorithm", [InOrder, Castle, Mondrian], ids=lambda algorithm: algorithm.name
)


def terms(algorithm: Algorithm, share: float = SHARE) -> ShardContext:
    members = pa.schema([("illness", pa.string()), (IDENTITY, pa.int64())])
    return ShardContext(
        POLICY, Privacy(3, 1, models=models_of(((AT_MOST, share),))), MADE[algorithm.name], members, fingerprint=PRINT
    )


def steps(stream: list[Row], size: int) -> list[Push | Finish]:
    return [*(Push(tuple(stream[i : i + size])) for i in range(0, len(stream), size)), Finish()]


def run(algorithm: Algorithm, stream: list[Row], size: int, *, restored: bool = False) -> list[Releases]:
    """Return the releases of a shard that is restored after each step or never."""
    setting = Setting(POLICY, Privacy(3), MADE[algorithm.name], (pa.string(), pa.int64()))
    of, stored, found = terms(algorithm), StoredShard(b"", {}), []
    shard: Shard = algorithm.new(of, 0, KEY)
    for step in steps(stream, size):
        out = shard.push(setting.block(step.rows)) if isinstance(step, Push) else shard.finish()
        assert out.changes is not None
        stored = stored.after(out.changes)
        if restored:
            shard = algorithm.restored(of, stored, "")
        found.append(out.releases)
    assert shard.counters.buffered == 0
    return found


def judge(stream: list[Row], outputs: Iterable[Releases]) -> None:
    """Require one release of each tuple, inside its interval, among three people, with no value of too many people."""
    gone: list[int] = []
    for out in outputs:
        for i, (start, stop) in enumerate(zip(out.offsets, out.offsets[1:], strict=False)):
            members = [stream[identity] for identity in out.members[1][start:stop]]
            gone += out.members[1][start:stop]
            assert all(out.lower[i, 0] <= row.values[0] <= out.upper[i, 0] for row in members)
            if out.tuples[i] > 1:
                require_privacy((row.subject, row.published[0]) for row in members)
        gone += out.suppressed_position.tolist()
    assert sorted(gone) == list(range(len(stream)))


def require_privacy(members: Iterable[tuple[Any, str]]) -> None:
    of: Mapping[str, set[Any]] = defaultdict(set)
    for who, value in members:
        of[value].add(who)
    people = set().union(*of.values())
    assert len(people) >= 3
    assert max(map(len, of.values())) <= SHARE * len(people)


@of_each_algorithm
@given(stream=rows, size=st.integers(1, 9))
@FEW
def test_what_leaves_keeps_the_promise_and_every_tuple_leaves_once(
    algorithm: Algorithm, stream: list[Row], size: int
) -> None:
    judge(stream, run(algorithm, stream, size))


@of_each_algorithm
@given(stream=rows, size=st.integers(1, 9))
@FEW
def test_a_restored_shard_goes_on_as_if_nothing_had_happened(
    algorithm: Algorithm, stream: list[Row], size: int
) -> None:
    assert columns_of(run(algorithm, stream, size, restored=True)) == columns_of(run(algorithm, stream, size))


@pytest.mark.parametrize("algorithm", [Castle, Mondrian], ids=lambda algorithm: algorithm.name)
@given(stream=rows, sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)))
@FEW
def test_how_a_stream_is_cut_changes_nothing(algorithm: Algorithm, stream: list[Row], sizes: tuple[int, int]) -> None:
    one, other = (columns_of(run(algorithm, stream, size)) for size in sizes)
    assert one == other


def test_tuples_that_cannot_keep_it_are_suppressed_under_its_reason() -> None:
    stream = [Row((1.0,), ("a", i), i, i) for i in range(9)]
    for algorithm in (InOrder, Castle, Mondrian):
        shard = algorithm.new(terms(algorithm), 0, KEY)
        setting = Setting(POLICY, Privacy(3), MADE[algorithm.name], (pa.string(), pa.int64()))
        shard.push(setting.block(stream))
        shard.finish()
        assert shard.counters.suppressed["too_common"] > 0
        assert shard.counters.released == 0


def test_omega_forgets_what_was_released_under_a_weaker_promise() -> None:
    positions = [8.0 * i for i in range(12)] + [50.0 + i % 2 for i in range(48)]
    stream = [Row((x,), ("ab"[i % 2], i), i, i) for i, x in enumerate(positions)]
    setting = Setting(POLICY, Privacy(3), MADE["castle"], (pa.string(), pa.int64()))
    shard, stored = Castle.new(terms(Castle), 0, KEY), StoredShard(b"", {})
    for i in range(0, 60, 5):
        changes = shard.push(setting.block(stream[i : i + 5])).changes
        assert changes is not None
        stored = stored.after(changes)
    kept, stronger = (Castle.restored(terms(Castle, share), stored, "") for share in (SHARE, 0.55))
    assert kept.arrays.now.omega_used > 0  # type: ignore[attr-defined]
    assert stronger.arrays.now.omega_used == 0  # type: ignore[attr-defined]


def test_both_are_found_by_name_in_another_process() -> None:
    assert pickle.loads(pickle.dumps(terms(InOrder))).privacy.further == ((AT_MOST, SHARE),)
    assert pickle.loads(pickle.dumps(InOrder)) is InOrder
    program = "import pickle, sys; of = pickle.load(sys.stdin.buffer); print(of.algorithm.name, of.privacy.further)"
    given = pickle.dumps(terms(InOrder))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, input=given, capture_output=True, check=True)
    assert done.stdout.decode().startswith("in_order ((PrivacyModel(name='at_most'")


def test_the_operator_runs_it_and_goes_on_from_its_state() -> None:
    plan = planned(InOrder(30))
    plan = replace(plan, context=replace(plan.context, privacy=Privacy(3, 1, models=models_of(((AT_MOST, SHARE),)))))
    whole, runtime, parts = Harness(ShardFunction(plan)), FakeRuntime(), []
    for first in range(0, 120, 20):
        whole.element(SHARD, block(first, 20).to_bytes())
        parts.append(Harness(ShardFunction(plan), runtime))
        parts[-1].element(SHARD, block(first, 20).to_bytes())
    whole.advance(END)
    parts[-1].advance(END)
    assert [row for part in parts for row in part.main] == whole.main
    assert left(whole) == list(range(120))
    assert ("parameter.at_most", SHARE) in [(name, amount) for _, name, amount in whole.side["summary"]]


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(CONFIGURATION.format(folder=tmp_path), encoding="utf-8")
    return path


def test_a_configuration_names_both(configuration: Path) -> None:
    config = load(configuration)
    assert config.algorithm == InOrder(20)
    assert config.privacy == Privacy(3, 1, models=models_of(((AT_MOST, 0.6),)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("in_order.most=2", "in_order.most: must be k (3) or more, not 2"),
        ("in_order.most=no", "in_order.most: must be a whole number, privacy.k or more"),
        ("privacy.at_most=2", "privacy.at_most: must be a number above 0 and at most 1, not 2"),
        ("policy.sensitive=null", "privacy.at_most: is about sensitive values, but policy.sensitive names no column"),
        (
            "sampling_and_noise={sample_rate: 0.5, phi: 10}",
            "sampling_and_noise: its argument is not made for in_order",
        ),
        ("extensions=[no.such.module]", "extensions: the module 'no.such.module' cannot be imported"),
    ],
)
def test_what_is_wrong_is_told_by_field(configuration: Path, change: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(configuration, [change])
    assert any(found.startswith(problem) for found in error.value.problems), error.value.problems


def test_a_promise_out_of_range_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"privacy\.at_most: must be"):
        Privacy(3, 1, models=models_of(((AT_MOST, 0.0),)))
