"""Pseudonyms beside released rows, from the operator in a fake runtime."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import pytest

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.policy import Pseudonym
from crenel.anonymity.model.secret import SubjectKey
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import END, ShardFunction
from tests.support.fakes import FakeRuntime, Harness
from tests.support.operator_stream import KEY, block, left, members, planned

MADE: dict[str, Algorithm] = {
    "castle": Castle(Delay(20), reuse_limit=50),
    "nearest": Nearest(Delay(20, jitter=0.25), reuse_limit=1000),
    "window": Suhdsa(tuples=20),
    "mondrian": Mondrian(window=Window(20, None)),
}


def plan(algorithm: str, pseudonym: Pseudonym | None) -> AnonymizationPlan:
    made = planned(MADE[algorithm])
    policy = dataclasses.replace(made.context.policy, pseudonym=pseudonym)
    terms = dataclasses.replace(made.context, policy=policy)
    return dataclasses.replace(made, context=terms, subject_key=SubjectKey.of(b"a key"))


def coded(harness: Harness) -> list[tuple[int, str, tuple[int, int]]]:
    """Yield the number of the tuple, the code, the shard and the release of each released row."""
    rows = []
    for release in harness.main:
        rows += [(visit, code, (release[1], release[0])) for _, visit, code in members(release)]
    return rows


def run(algorithm: str, pseudonym: Pseudonym, *, restored: bool = False) -> list[tuple[int, str, tuple[int, int]]]:
    """Run two shards of one stream; ``restored``: another process continues after half of it."""
    runtime, rows = FakeRuntime(), []
    harness = Harness(ShardFunction(plan(algorithm, pseudonym)), runtime)
    for first in range(0, 400, 50):
        if restored and first == 200:
            rows += coded(harness)
            harness = Harness(ShardFunction(plan(algorithm, pseudonym)), runtime)
        shard = first // 50 % 2
        harness.element(KEY + shard, block(first, 50, shard=shard).to_bytes())
    harness.advance(END)
    rows += coded(harness)
    assert {shard for _, _, (shard, _) in rows} == {0, 1}
    return rows


@pytest.mark.parametrize("algorithm", MADE)
def test_a_person_has_one_code_in_the_stream_in_all_shards_and_after_a_restore(algorithm: str) -> None:
    rows = run(algorithm, Pseudonym("who", "stream"))
    of: dict[int, set[str]] = defaultdict(set)
    for visit, code, _ in rows:
        of[visit % 37].add(code)  # which is the person
    assert len(rows) > 300
    assert all(len(found) == 1 for found in of.values())
    assert len(set.union(*of.values())) == len(of) == 37
    assert sorted(run(algorithm, Pseudonym("who", "stream"), restored=True)) == sorted(rows)


@pytest.mark.parametrize("algorithm", MADE)
def test_a_code_of_a_release_is_found_in_no_other(algorithm: str) -> None:
    rows = run(algorithm, Pseudonym("who", "release"))
    of: dict[str, set[tuple[int, tuple[int, int]]]] = defaultdict(set)
    for visit, code, release in rows:
        of[code].add((visit % 37, release))
    assert all(len(found) == 1 for found in of.values())
    assert len(of) == len(set.union(*of.values()))
    assert sorted(run(algorithm, Pseudonym("who", "release"), restored=True)) == sorted(rows)


def test_a_code_of_a_day_goes_by_the_event_time_of_the_row() -> None:
    # A second a tuple: midnight of UTC comes between the tuples 86,399 and 86,400.
    harness = Harness(ShardFunction(plan("castle", Pseudonym("who", "day"))))
    for first in range(86_300, 86_500, 50):
        harness.element(KEY, block(first, 50).to_bytes())
    harness.advance(END)
    of: dict[tuple[int, int], set[str]] = defaultdict(set)
    for visit, code, _ in coded(harness):
        of[visit % 37, visit // 86_400].add(code)
    assert {day for _, day in of} == {0, 1}
    assert all(len(found) == 1 for found in of.values())
    assert len(set.union(*of.values())) == len(of)


def test_what_is_suppressed_carries_no_code_and_without_a_pseudonym_there_is_none() -> None:
    with_codes = Harness(ShardFunction(plan("castle", Pseudonym("who", "stream"))))
    without = Harness(ShardFunction(plan("castle", None)))
    for harness in (with_codes, without):
        harness.element(KEY, block(0, 2).to_bytes())
        harness.advance(END)
        assert left(harness) == [0, 1]
    assert with_codes.side["suppressed"] == without.side["suppressed"]
    without.element(KEY, block(2, 60).to_bytes())
    assert all(len(member) == 2 for release in without.main for member in members(release))
