"""Persons who come again: how many an observer finds who intersects their releases, and what a lasting promise costs.

The observer knows everybody's values whenever they came, and which rows are a person's. Of each row they take all
persons whose latest values lie in its generalization, and intersect.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.adult import REUSE, Stream, stream
from benchmarks.nearest import of_attributes
from benchmarks.table import Table
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.algorithms.castle.shard import Castle
from crenel.anonymity.algorithms.nearest.algorithm import NEAREST
from crenel.anonymity.algorithms.nearest.lasting.shard import LastingNearest
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.stored_shard import begun
from crenel.anonymity.model.privacy import Lasting, Privacy
from crenel.state.stored import Stored

SIX = ("age", "education-num", "hours-per-week", "education", "marital-status", "occupation")
_K, _DELAY, _MOVES, _STEP = 10, 1000, 0.2, 0.05
_RUNS = 3


@dataclass(frozen=True)
class Run:
    """What one run gave.

    Attributes
    ----------
    loss, suppressed : mean loss of released tuples, share of all that were suppressed
    widened : share of the later rows that needed another generalization
    below : share of persons behind whose rows fewer than k persons can be
    groups : of companions, that are known at the end
    """

    loss: float
    suppressed: float
    widened: float
    below: float
    groups: int


_PROMISES: tuple[tuple[str, Lasting | None], ...] = (
    ("CASTLE", None),
    ("each_release", None),
    ("lasting", Lasting()),
    ("lasting, suppress", Lasting(moved="suppress")),
    ("lasting, count", Lasting(moved="count")),
)


def tables() -> Iterator[Table]:
    """What each promise costs, and whom the observer finds, stream by stream."""
    adult = of_attributes(stream(), SIX)
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


def remembered(adult: Stream) -> Table:
    """What is kept of persons, and how long it takes to be restored."""
    table = Table(
        f"State of persons ({adult.numeric.shape[1] + adult.categorical.shape[1]} quasi-identifiers, k = {_K}, delay "
        f"{_DELAY:,}, values that stay, in blocks of 2,000)",
        ["persons", "rows each", "stored bytes a person", "bytes in memory a person", "restored in"],
    )
    for persons, each in ((100_000, 1), (100_000, 3), (1_000_000, 1), (1_000_000, 3)):
        people = adult.enlarged(persons)
        random = np.random.default_rng(1)
        rows = np.concatenate([random.permutation(persons) for _ in range(each)])
        tuples = Stream(
            replace(people.policy, subject="person"),
            people.numeric[rows],
            people.categorical[rows],
            people.sensitive[rows],
            people.members.take(pa.array(rows)),
            random.integers(1, 2**64, persons, np.uint64)[rows],
        )
        terms = _terms(tuples, "lasting", Lasting())
        shard = NEAREST.new(terms, 0, bytes(32))
        stored = Stored(b"", {})
        for block in tuples.blocks(2000):
            changes = shard.push(block).changes
            assert changes is not None
            stored = stored.after(changes)
        start = time.perf_counter()
        restored = NEAREST.restored(terms, stored, "")
        seconds = time.perf_counter() - start
        assert isinstance(restored, LastingNearest)
        table.add(
            f"{persons:,}",
            each,
            f"{sum(map(len, stored.entries['companions'].values())) / persons:.0f}",
            f"{_bytes(*_records(restored)) / persons:.0f}",
            f"{seconds:.1f} s",
        )
    return table


def _records(shard: LastingNearest) -> list[Any]:
    persons, groups = shard.arrays.persons, shard.arrays.groups
    return [persons, persons.row, groups, groups.box]


def _bytes(*records: Any) -> int:
    """What the arrays of records take."""
    return sum(column.nbytes for record in records for column in record if isinstance(column, np.ndarray))


def compared(adult: Stream, persons: int, each: int, *, in_rounds: bool, moves: bool) -> Table:
    """The promises on one stream, as ``returning`` makes it."""
    order, values = "in rounds" if in_rounds else "by chance", "that move" if moves else "that stay"
    table = Table(
        f"{persons:,} persons of Adult, {each} rows each, {order}, with values {values} "
        f"({len(SIX)} quasi-identifiers, k = {_K}, delay {_DELAY:,}; speed: median of {_RUNS}, in turn)",
        ["promise", "loss", "suppressed", "widened", "persons below k", "tuples/s"],
    )
    tuples = returning(adult, persons, each, in_rounds=in_rounds, moves=moves)
    spent: dict[str, list[float]] = {name: [] for name, _ in _PROMISES}
    for turn in range(_RUNS):
        for name, promise in _PROMISES:
            spent[name].append(_seconds(tuples, name, promise, turn))
    for name, promise in _PROMISES:
        run = observed(tuples, _terms(tuples, name, promise))
        table.add(
            name,
            f"{run.loss:.3f}",
            f"{run.suppressed:.2%}",
            f"{run.widened:.0%}" if promise else "-",
            f"{run.below:.1%}",
            f"{len(tuples) / float(np.median(spent[name])):,.0f}",
        )
    return table


def returning(adult: Stream, persons: int, each: int, *, in_rounds: bool, moves: bool, seed: int = 0) -> Stream:
    """Some persons of Adult who come ``each`` times: all once before any comes again, or by chance.

    Where they move, each row changes one number by 5 % of its range with a probability of 0.2.
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


def _terms(tuples: Stream, name: str, promise: Lasting | None) -> ShardContext:
    castle = CastleParameters(_DELAY, reuse_limit=REUSE)
    parameters = castle if name == "CASTLE" else NearestParameters(_DELAY)
    return ShardContext(tuples.policy, Privacy(_K, lasting=promise), parameters, tuples.members.schema)


def _seconds(tuples: Stream, name: str, promise: Lasting | None, seed: int) -> float:
    terms, key = _terms(tuples, name, promise), bytes([seed]) * 32
    shard = Castle(terms, begun(terms, 0, key)) if name == "CASTLE" else NEAREST.new(terms, 0, key)
    blocks = tuples.blocks(2000)
    start = time.perf_counter()
    for block in blocks:
        shard.push(block)
    shard.finish()
    return time.perf_counter() - start


def observed(tuples: Stream, terms: ShardContext) -> Run:
    """One run, tuple by tuple and one a second, with the observer beside it, who puts all rows together."""
    castle = isinstance(terms.parameters, CastleParameters)
    shard = Castle(terms, begun(terms, 0, bytes(32))) if castle else NEAREST.new(terms, 0, bytes(32))
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
            may_be = _inside(tuples, out, release, *latest)
            rows = out.members[column][out.offsets[release] : out.offsets[release + 1]]
            behind[person[rows]] &= may_be
    counters = shard.counters
    later = counters.releases["again"] + counters.releases["widened"]
    return Run(
        counters.loss_sum / counters.released,
        sum(counters.suppressed.values()) / len(tuples),
        counters.releases["widened"] / max(later, 1),
        float((behind.sum(axis=1) < terms.privacy.k).mean()),
        int(shard.arrays.groups.now.known) if isinstance(shard, LastingNearest) else 0,
    )


def _inside(
    tuples: Stream, out: Releases, release: int, numeric: NDArray[np.float64], leaf: NDArray[np.int32]
) -> NDArray[np.bool_]:
    inside = ((numeric >= out.lower[release]) & (numeric <= out.upper[release])).all(axis=1)
    for i, attribute in enumerate(tuples.policy.categorical):
        tree, node = attribute.hierarchy, out.node[release, i]
        inside &= (leaf[:, i] >= tree.first[node]) & (leaf[:, i] <= tree.last[node])
    found: NDArray[np.bool_] = inside
    return found
