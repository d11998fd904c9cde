"""Intersection attacks on persons with several records, and the cost of ``privacy.persons.guarantee: lasting``.

The attacker knows the values of all persons at each of their records, and which records belong to the same person. For
each record, the attacker takes all persons whose latest values lie in its generalization, and intersects these sets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.adult import stream
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.nearest.lasting.shard import LastingNearestShard
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.state.shard import StoredShard
from experiments.harness import REUSE, Stream, Table, taxi_stream
from experiments.timing import inside

SIX = ("age", "education-num", "hours-per-week", "education", "marital-status", "occupation")
_K, _DELAY, _MOVES, _STEP = 10, 1000, 0.2, 0.05
_RUNS = 3


@dataclass(frozen=True)
class Run:
    """Results of one run.

    Attributes
    ----------
    loss, suppressed : mean loss of released tuples; share of suppressed tuples
    widened : share of later records with another generalization
    below : share of persons whose anonymity set has fewer than k persons
    groups : number of anonymity sets at the end
    """

    loss: float
    suppressed: float
    widened: float
    below: float
    groups: int


_GUARANTEES: tuple[tuple[str, Persons | None], ...] = (
    ("CASTLE", None),
    ("each_release", None),
    ("lasting", Persons("lasting")),
    ("lasting, suppress", Persons("lasting", moved="suppress")),
    ("lasting, count", Persons("lasting", moved="count")),
)


_BY_STREAM = {
    "each_release": None,
    "widen": Persons("lasting"),
    "suppress": Persons("lasting", None, "suppress"),
    "count": Persons("lasting", None, "count"),
}
_HEADER = ["loss", "suppressed", "widened", "persons below k"]


def results() -> Iterator[Table]:
    """Tabulate costs and intersection attacks by stream, the state of persons, and then further settings."""
    adult = stream().of_attributes(SIX)
    for persons, each, in_rounds, moves in (
        (2000, 3, True, False),
        (2000, 10, True, False),
        (2000, 10, True, True),
        (2000, 10, False, False),
        (2000, 10, False, True),
        (500, 100, False, True),
    ):
        yield compared(adult, persons, each, in_rounds=in_rounds, moves=moves)
    yield remembered(stream())
    yield _by_stream(adult)
    yield _by_horizon(adult)


def remembered(adult: Stream) -> Table:
    """Tabulate the state of persons, and the time to restore it."""
    table = Table(
        f"State of persons ({adult.numeric.shape[1] + adult.categorical.shape[1]} quasi-identifiers, k = {_K}, delay "
        f"{_DELAY:,}, values that stay, in blocks of 2,000)",
        ["persons", "rows each", "stored bytes a person", "bytes in memory a person", "restored in"],
    )
    for persons, each in ((100_000, 1), (100_000, 3), (1_000_000, 1), (1_000_000, 3)):
        people = adult.enlarged(persons)
        random = np.random.default_rng(1)
        rows = np.concatenate([random.permutation(persons) for _ in range(each)])
        tuples = replace(
            people.rows(rows),
            policy=replace(people.policy, subject="person"),
            subject=random.integers(1, 2**64, persons, np.uint64)[rows],
        )
        terms = _terms(tuples, "lasting", Persons("lasting"))
        shard = Nearest.new(terms, 0, bytes(32))
        stored = StoredShard(b"", {})
        for block in tuples.blocks(2000):
            changes = shard.push(block).changes
            assert changes is not None
            stored = stored.after(changes)
        start = time.perf_counter()
        restored = Nearest.restored(terms, stored, "")
        seconds = time.perf_counter() - start
        assert isinstance(restored, LastingNearestShard)
        table.add(
            f"{persons:,}",
            each,
            f"{sum(map(len, stored.entries['anonymity_sets'].values())) / persons:.0f}",
            f"{_bytes(*_records(restored)) / persons:.0f}",
            f"{seconds:.1f} s",
        )
    return table


def _records(shard: LastingNearestShard) -> list[Any]:
    persons, groups = shard.arrays.persons, shard.arrays.groups
    return [persons, persons.row, groups, groups.box]


def _bytes(*records: Any) -> int:
    """Return the bytes of the arrays of records."""
    return sum(column.nbytes for record in records for column in record if isinstance(column, np.ndarray))


def compared(adult: Stream, persons: int, each: int, *, in_rounds: bool, moves: bool) -> Table:
    """Tabulate each setting on one stream of ``returning``."""
    order, values = "in rounds" if in_rounds else "by chance", "that move" if moves else "that stay"
    table = Table(
        f"{persons:,} persons of Adult, {each} rows each, {order}, with values {values} "
        f"({len(SIX)} quasi-identifiers, k = {_K}, delay {_DELAY:,}; speed: median of {_RUNS}, in turn)",
        ["setting", "loss", "suppressed", "widened", "persons below k", "tuples/s"],
    )
    tuples = returning(adult, persons, each, in_rounds=in_rounds, moves=moves)
    spent: dict[str, list[float]] = {name: [] for name, _ in _GUARANTEES}
    for turn in range(_RUNS):
        for name, lasting_setting in _GUARANTEES:
            spent[name].append(_seconds(tuples, name, lasting_setting, turn))
    for name, lasting_setting in _GUARANTEES:
        run = observed(tuples, _terms(tuples, name, lasting_setting))
        table.add(
            name,
            f"{run.loss:.3f}",
            f"{run.suppressed:.2%}",
            f"{run.widened:.0%}" if lasting_setting else "-",
            f"{run.below:.1%}",
            f"{len(tuples) / float(np.median(spent[name])):,.0f}",
        )
    return table


def returning(adult: Stream, persons: int, each: int, *, in_rounds: bool, moves: bool, seed: int = 0) -> Stream:
    """Return a stream of persons of Adult with ``each`` records, in rounds or in random order.

    If values move, each record changes one number by 5 % of its range with a probability of 0.2.
    """
    random = np.random.default_rng(seed)
    people = random.permutation(len(adult))[:persons]
    rounds = [random.permutation(persons) for _ in range(each)]
    order = np.concatenate(rounds) if in_rounds else random.permutation(np.repeat(np.arange(persons), each))
    rows = people[order]
    numeric = adult.numeric[rows].copy()
    if moves:
        low, high = adult.numeric.min(0), adult.numeric.max(0)
        values = adult.numeric[people].copy()
        for i, person in enumerate(order.tolist()):
            if random.random() < _MOVES:
                a = random.integers(values.shape[1])
                step = random.choice([-1, 1]) * _STEP * (high[a] - low[a])
                values[person, a] = np.clip(values[person, a] + step, low[a], high[a])
            numeric[i] = values[person]
    members = pa.record_batch(
        [*adult.members.take(pa.array(rows)).columns, pa.array(np.arange(len(rows)))],
        names=[*adult.members.schema.names, "row"],
    )
    policy = replace(adult.policy, subject="person", passthrough=("row",), event_time="at")
    subject = order.astype(np.uint64) + np.uint64(1)
    return Stream(policy, numeric, adult.categorical[rows], adult.sensitive[rows], members, subject)


def _terms(tuples: Stream, name: str, lasting_setting: Persons | None) -> ShardContext:
    castle = Castle(Delay(_DELAY), reuse_limit=REUSE)
    parameters = castle if name == "CASTLE" else Nearest(Delay(_DELAY))
    return ShardContext(tuples.policy, Privacy(_K, persons=lasting_setting), parameters, tuples.members.schema)


def _seconds(tuples: Stream, name: str, lasting_setting: Persons | None, seed: int) -> float:
    terms, key = _terms(tuples, name, lasting_setting), bytes([seed]) * 32
    shard = (Castle if name == "CASTLE" else Nearest).new(terms, 0, key)
    blocks = tuples.blocks(2000)
    start = time.perf_counter()
    for block in blocks:
        shard.push(block)
    shard.finish()
    return time.perf_counter() - start


def observed(tuples: Stream, terms: ShardContext) -> Run:
    """Run a stream tuple by tuple, one per second, and attack it by intersection over all records."""
    castle = isinstance(terms.algorithm, Castle)
    shard = (Castle if castle else Nearest).new(terms, 0, bytes(32))
    assert tuples.subject is not None
    person = tuples.subject.astype(np.int64) - 1
    count = int(person.max()) + 1
    latest = np.full((count, tuples.numeric.shape[1]), np.nan), np.zeros((count, tuples.categorical.shape[1]), np.int32)
    behind = np.ones((count, count), np.bool_)
    column = tuples.policy.members.index("row")
    blocks = [replace(block, event_time=np.array([1000 * i])) for i, block in enumerate(tuples.blocks(1))]
    for i in range(len(tuples) + 1):
        if i < len(tuples):
            latest[0][person[i]], latest[1][person[i]] = tuples.numeric[i], tuples.categorical[i]
        out = shard.push(blocks[i], 1000 * i).releases if i < len(tuples) else shard.finish().releases
        for release in range(len(out)):
            may_be = inside(tuples, out, release, *latest)
            rows = out.members[column][out.offsets[release] : out.offsets[release + 1]]
            behind[person[rows]] &= may_be
    counters = shard.counters
    later = counters.releases["again"] + counters.releases["widened"]
    return Run(
        counters.loss_sum / counters.released,
        sum(counters.suppressed.values()) / len(tuples),
        counters.releases["widened"] / max(later, 1),
        float((behind.sum(axis=1) < terms.privacy.k).mean()),
        int(shard.arrays.groups.now.known) if isinstance(shard, LastingNearestShard) else 0,
    )


def _by_stream(adult: Stream) -> Table:
    table = Table(
        "lasting by k and stream (records in random order; values move)", ["stream", "k", "delay", "setting", *_HEADER]
    )
    ten = returning(adult, 2000, 10, in_rounds=False, moves=True)
    trips = _numbered(taxi_stream())
    for name, tuples, k, delay in (
        ("2,000 persons, 10 rows each", ten, 5, 1000),
        ("2,000 persons, 10 rows each", ten, 20, 1000),
        ("2,000 persons, 10 rows each", ten, 50, 1000),
        ("2,000 persons, 10 rows each", ten, 10, 1000),
        ("500 persons, 100 rows each", returning(adult, 500, 100, in_rounds=False, moves=True), 10, 1000),
        ("6,000 persons, 5 rows each", returning(adult, 6000, 5, in_rounds=False, moves=True), 10, 1000),
        (
            "2,000 persons, 10 rows each, 10 attributes",
            returning(stream(), 2000, 10, in_rounds=False, moves=True),
            10,
            1000,
        ),
        ("taxi, 2 attributes, 100 persons", trips, 10, 200),
    ):
        for lasting_setting, lasting in _BY_STREAM.items():
            run = observed(tuples, _nearest(tuples, k, Nearest(Delay(delay)), lasting))
            table.add(name, k, f"{delay:,}", lasting_setting, *_cells(run))
    return table


def _by_horizon(adult: Stream) -> Table:
    table = Table(
        "lasting by horizon (2,000 persons, 10 records each in random order, one per second; the attacker "
        "intersects all records, also those beyond the horizon)",
        ["horizon", "anonymity sets at the end", *_HEADER],
    )
    tuples = returning(adult, 2000, 10, in_rounds=False, moves=True)
    for seconds in (1000, 2000, 5000, 10_000, None):
        horizon = None if seconds is None else 1000 * seconds
        parameters = Nearest(Delay(1000, 1_000_000))
        run = observed(tuples, _nearest(tuples, 10, parameters, Persons("lasting", horizon)))
        table.add("none" if seconds is None else f"{seconds:,} s", run.groups, *_cells(run))
    return table


def _nearest(tuples: Stream, k: int, parameters: Nearest, lasting_setting: Persons | None) -> ShardContext:
    return ShardContext(tuples.policy, Privacy(k, persons=lasting_setting), parameters, tuples.members.schema)


def _cells(run: Run) -> list[str]:
    return [f"{run.loss:.3f}", f"{run.suppressed:.2%}", f"{run.widened:.0%}", f"{run.below:.1%}"]


def _numbered(tuples: Stream) -> Stream:
    """Return the same stream with row numbers, and with persons numbered from 1."""
    assert tuples.subject is not None
    _, person = np.unique(tuples.subject, return_inverse=True)
    members = pa.record_batch(
        [*tuples.members.columns, pa.array(np.arange(len(tuples)))], names=[*tuples.members.schema.names, "row"]
    )
    policy = replace(tuples.policy, passthrough=("row",), event_time="at")
    return replace(tuples, policy=policy, members=members, subject=person.astype(np.uint64) + np.uint64(1))
