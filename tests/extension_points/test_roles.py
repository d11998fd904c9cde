"""Rows of columns of every role at once, on their way through encode and each algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from ipaddress import IPv4Network
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithm import Algorithm, Counters, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Categorical, Noised, Numeric, by_name
from crenel.anonymity.model.builders.addresses import Ip
from crenel.anonymity.model.builders.builder import ROOT, Builder
from crenel.anonymity.model.builders.cells import Geohash, Quadkey
from crenel.anonymity.model.builders.dates import Dates
from crenel.anonymity.model.builders.mask import Mask
from crenel.anonymity.model.builders.numbers import Numbers
from crenel.anonymity.model.builders.times import Times, Weekdays
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.hierarchy import MISSING, from_paths
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy
from crenel.anonymity.model.secret import SubjectKey
from examples.own_algorithm import InOrder
from tests.support.checker import check_published, diversity
from tests.support.drive import KEY, PRINT
from tests.support.encoding import KEYS, blocks_of
from tests.support.example_counts import FEW
from tests.support.labels import in_cell, in_interval, in_network, in_period, in_time, is_masked, is_on
from tests.support.layouts import encode_plan, layout_of

MADE: dict[str, Any] = {
    Castle.name: Castle(Delay(25, 40), max_clusters=6),
    Nearest.name: Nearest(Delay(25, 40, jitter=0.25), reuse_limit=1000),
    Suhdsa.name: Suhdsa(tuples=20, event_time=60),
    Mondrian.name: Mondrian(Window(25, 60)),
    Ola.name: Ola(Window(25), 0.2),
    InOrder.name: InOrder(20),
}
ALGORITHMS = [Castle, Nearest, Suhdsa, Mondrian, Ola, InOrder]


@dataclass(frozen=True)
class Built:
    """A built hierarchy: how its column is declared, its values, others, and whether one is below a label."""

    builder: Builder
    sql: str
    values: tuple[Any, ...]
    unknown: Any
    within: Callable[[Any, str], bool]


BUILT = {
    "born": Built(Numbers((1930, 2009), (1, 10, 40)), "INT", (1930, 1969, 1970, 2009), 2010, in_interval),
    "zip": Built(Mask((3, 1, 0), length=3, alphabet="012"), "STRING", ("012", "011", "222"), "013", is_masked),
    "day": Built(
        Dates((date(2024, 1, 1), date(2024, 12, 31)), ("month", "quarter")),
        "STRING",
        ("2024-02-29", "2024-03-31", "2024-12-31"),
        "2023-12-31",
        in_period,
    ),
    "address": Built(
        Ip((IPv4Network("10.0.0.0/29"),), (32, 30)), "STRING", ("10.0.0.1", "10.0.0.7"), "10.0.0.8", in_network
    ),
}
BUILT |= {
    "hour": Built(Times(("hour", "part")), "STRING", ("00:10", "05:59:59", "23:00"), "24:00", in_time),
    "weekday": Built(Weekdays(), "STRING", ("2024-02-29", "2024-03-02", "2024-03-03"), "2024-02-30", is_on),
    "week": Built(
        Dates((date(2024, 12, 1), date(2025, 1, 31)), ("week", "week_year")),
        "STRING",
        ("2024-12-29", "2024-12-30", "2025-01-31"),
        "2025-02-01",
        in_period,
    ),
    "place": Built(Geohash((3, 2), ("u4", "u5b")), "STRING", ("u4pru", "u4x", "u5b0"), "u5c0", in_cell),
    "tile": Built(Quadkey((4, 3, 1), ("12",)), "STRING", ("1202", "12333"), "1302", in_cell),
}
TOWNS = from_paths([(f"{side}-{i}", side, "*") for side in ("north", "south") for i in range(3)])
NOISED = (Noised((100.0, 220.0)).named("height"), Noised((30.25, 250.0), 0.1).named("weight"))
COLUMNS = {name: built.sql for name, built in BUILT.items()} | {
    "age": "INT",
    "pay": "DOUBLE",
    "town": "STRING",
    "illness": "STRING",
    "height": "INT",
    "weight": "DOUBLE",
    "row": "BIGINT",
    "who": "STRING",
    "time": "BIGINT",
}
# Values of each column, and one that is rejected; None is one of them everywhere.
VALUES: dict[str, tuple[tuple[Any, ...], Any]] = {name: (built.values, built.unknown) for name, built in BUILT.items()}
VALUES |= {
    "age": ((18, 19, 40, 90), 91),
    "pay": ((0.5, 2.0, 1e6), float("inf")),
    "town": (TOWNS.labels[:6], "north"),
    "illness": (("flu", "cold", "gout"), "flu"),
    "height": ((150, 165, 180, 220), 221),
    "weight": ((30.25, 70.1, 250.0), 30.2),
    "who": (tuple(f"p{i}" for i in range(30)), "p0"),
}
REASON = {"age": "outside_domain", "pay": "bad_type", "height": "outside_domain", "weight": "outside_domain"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A policy with what it promises, and rows of its columns in batches."""

    policy: Policy
    privacy: Privacy
    batches: tuple[tuple[Row, ...], ...]


@st.composite
def cases(draw: st.DrawFn, *, levels: bool) -> Case:
    """``levels``: all quasi-identifiers have hierarchies with levels."""
    missing: Literal["reject", "value"] = draw(st.sampled_from(("reject", "value")))
    known: dict[str, Categorical | Numeric] = {name: Categorical(built.builder) for name, built in BUILT.items()}
    known["town"] = Categorical(TOWNS)
    if not levels:
        known |= {"age": Numeric((18.0, 90.0)), "pay": Numeric()}
    names = draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3, unique=True))
    subject = draw(st.sampled_from((None, "who")))
    policy = Policy(
        {name: known[name] for name in names},
        sensitive=("illness",),
        noised=by_name(NOISED),
        passthrough=("row",),
        subject=subject,
        event_time="time",
        missing=missing,
        drop=() if subject else ("who",),
    )
    k = draw(st.integers(2, 4))
    confidence = draw(st.sampled_from((None, Confidence(0.9, 2), Confidence(0.99, k))))
    noise = NoiseWithinRelease(draw(st.sampled_from((0.5, 4.0))), {"height": 0.6, "weight": 0.4}, confidence=confidence)
    # From a seed, as in tests.support.strategies.
    chance, rows = Random(draw(st.integers(0, 2**32))), []
    for i in range(draw(st.sampled_from((0, 5, 30, 60, 60)))):
        row = {name: chance.choice(values) for name, (values, _) in VALUES.items()}
        row |= {"row": i, "time": 3 * i + chance.randrange(20)}
        if chance.random() < 0.3:
            name = chance.choice([*names, "illness", "height", "weight", "who", "time"])
            row[name] = chance.choice((None, VALUES[name][1] if name in VALUES else None))
        rows.append(row)
    size = draw(st.integers(1, 40))
    batches = tuple(tuple(rows[i : i + size]) for i in range(0, len(rows), size))
    return Case(policy, Privacy(k, draw(st.integers(1, 2)), models={}, noise_within_release=noise), batches)


def wrong(policy: Policy, row: Row) -> tuple[str, str] | None:
    """Return column and reason of the first fault of a rejected row, found without any code of the project."""
    kept = {*(a.name for a in policy.categorical), "illness"} if policy.missing == "value" else set()
    for name in (*(a.name for a in policy.attributes), "illness", "height", "weight", policy.subject, "time"):
        if name is None or (row[name] is None and name in kept):
            continue
        if row[name] is None:
            return name, "missing"
        if name in REASON or name in BUILT or name == "town":
            if row[name] == VALUES[name][1]:
                return name, REASON.get(name, "unknown_category")
    return None


@dataclass(frozen=True)
class Run:
    """Result of a case: admitted rows, releases, counters, and the policy with its steps."""

    rows: list[Row]
    outputs: list[Releases]
    counters: Counters
    policy: Policy


def run(algorithm: Algorithm, case: Case) -> Run:
    found = layout_of(case.policy, {name: COLUMNS[name] for name in case.policy.roles})
    plan = encode_plan(found, Shards(1), KEYS[:1], SubjectKey.of(b"secret"))
    policy, members = found.plan.policy, found.plan.context.members
    terms = ShardContext(policy, case.privacy, MADE[algorithm.name], members, fingerprint=PRINT)
    assert list(terms.algorithm.problems(policy, case.privacy)) == []
    shard, kept, outputs, watermark = algorithm.new(terms, 0, KEY), [], [], -1
    for batch in case.batches:
        expected = [wrong(case.policy, row) for row in batch]
        rejected = []
        for block in blocks_of(plan, batch):
            outputs.append(shard.push(block, watermark).releases)
            rejected += [
                (plan.checked[column], REJECTIONS[reason])
                for column, reason in zip(block.rejected.column.tolist(), block.rejected.reason.tolist(), strict=True)
            ]
        assert rejected == [problem for problem in expected if problem is not None]
        kept += [row for row, problem in zip(batch, expected, strict=True) if problem is None]
        watermark = max([watermark, *(row["time"] - 10 for row in kept)])
        outputs.append(shard.advance(watermark).releases)
    outputs.append(shard.finish().releases)
    return Run(kept, outputs, shard.counters, found.plan.policy)


def judge(case: Case, done: Run) -> None:
    gone: list[int] = []
    for out in done.outputs:
        gone += [done.rows[position]["row"] for position in out.suppressed_position.tolist()]
        for i, (start, stop) in enumerate(zip(out.offsets, out.offsets[1:], strict=False)):
            of = {row["row"]: row for row in done.rows}
            members = [of[number] for number in out.members[-1][start:stop]]
            gone += [row["row"] for row in members]
            for m, row in enumerate(members, start):
                came = [row[name] for name in done.policy.members]
                check_published(done.policy, [column[m] for column in out.members], came)
                assert all(covers(case.policy, out, i, row))
            people: dict[Any, set[Any]] = {}
            for row in members:
                people.setdefault(row[case.policy.subject or "row"], set()).add(row["illness"])
            if KINDS[out.kind[i]] != "reused":
                assert out.subjects[i] == len(people) >= case.privacy.k
                assert case.privacy.l <= out.diversity[i, 0] <= diversity(list(people.values()))
            assert out.subjects[i] >= case.privacy.k
    assert sorted(gone) == [row["row"] for row in done.rows]
    counters = done.counters
    assert counters.tuples_in == len(done.rows) == counters.released + sum(counters.suppressed.values())


def covers(policy: Policy, out: Releases, i: int, row: Row) -> list[bool]:
    """Return whether a generalization is true of each quasi-identifier of a row."""
    found = [
        low <= row[attribute.name] <= high
        for attribute, low, high in zip(policy.numeric, out.lower[i], out.upper[i], strict=True)
    ]
    for attribute, node in zip(policy.categorical, out.node[i].tolist(), strict=True):
        label, value = attribute.hierarchy.labels[node], row[attribute.name]
        if value is None or label in (MISSING, ROOT):
            found.append(label == ROOT or (value is None and label == MISSING))
        elif attribute.name == "town":
            found.append(label in (value, value.partition("-")[0]))
        else:
            found.append(BUILT[attribute.name].within(value, label))
    return found


of_each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)


@of_each_algorithm
@given(data=st.data())
@FEW
def test_rows_of_every_role_leave_once_in_classes_that_keep_every_promise(
    algorithm: Algorithm, data: st.DataObject
) -> None:
    case = data.draw(cases(levels=algorithm is Ola))
    judge(case, run(algorithm, case))
