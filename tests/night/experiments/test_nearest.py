"""The prototype with the default rule has the loss of nearest."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.algorithm import CastleParameters
from crenel.anonymity.algorithms.nearest.algorithm import NearestParameters
from crenel.anonymity.builtin import NEAREST
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import NONE
from experiments import timing
from experiments.castle.contenders import zipf
from experiments.harness import Stream, replay
from experiments.nearest.attack import fitting, guess
from experiments.nearest.prototype import REUSED, SUPPRESSED, Rule, prepare, process, regions, run
from experiments.nearest.rare import settings


def _stream(rows: int = 600) -> Stream:
    """Visits of people who come three times or so; two numbers, a category, and a sensitive value of four."""
    random = np.random.default_rng(5)
    tree = from_paths([(str(leaf), "low" if leaf < 3 else "high", "*") for leaf in range(7)])
    person = random.integers(0, rows // 3, rows)
    value = random.integers(0, 4, rows)
    return Stream(
        Policy((Numeric("a", (0, 100)), Numeric("b", (0, 9)), Categorical("c", tree)), ("value",), subject="person"),
        np.column_stack([random.integers(0, 101, rows), random.integers(0, 10, rows)]).astype(np.float64),
        random.integers(0, 7, (rows, 1)).astype(np.int32),
        (value + 1).astype(np.uint64).reshape(-1, 1),
        pa.record_batch([pa.array(value)], names=["value"]),
        (person + 1).astype(np.uint64),
    )


def _numbers(values: np.ndarray) -> Stream:
    """Return rows of numbers from 0 to 100, each of which is a person."""
    return Stream(
        Policy(tuple(Numeric(name, (0, 100)) for name in "abc"[: values.shape[1]]), ("value",), subject="person"),
        values.astype(np.float64),
        np.zeros((len(values), 0), np.int32),
        np.ones((len(values), 1), np.uint64),
        pa.record_batch([pa.array(np.ones(len(values)))], names=["value"]),
        np.arange(len(values)).astype(np.uint64),
    )


def test_without_reuse_the_base_rule_loses_what_nearest_release_loses() -> None:
    tuples = _stream()
    parameters = NearestParameters(delay_tuples=90, delay_jitter=0.0, reuse_limit=0)
    found = run(tuples, Rule(k=5, l=1, delay=90, reuse_limit=0))
    real = replay(tuples, NEAREST, Privacy(5), parameters)
    assert found.loss == pytest.approx(real.loss, rel=1e-12)
    assert found.suppressed == real.suppressed


@pytest.mark.parametrize(("delay", "rows"), [(90, 1500), (400, 1500), (5000, 7000)])
def test_nearest_with_a_price_of_isolation_loses_what_the_prototype_of_its_rule_loses(delay: int, rows: int) -> None:
    tuples = _stream(rows)
    sample: dict[str, Any] = {"sample": 256, "neighbors": 6, "sample_share": 10}
    rule = Rule(k=5, l=1, delay=delay, reuse_limit=0, price=0.55, age_weight=0.5, cheapest=8, **sample)
    found, plain = run(tuples, rule), run(tuples, Rule(k=5, l=1, delay=delay, reuse_limit=0))
    real = replay(tuples, NEAREST, Privacy(5), NearestParameters(delay, isolation_price=0.55))
    assert found.loss == pytest.approx(real.loss, rel=1e-12)
    assert found.suppressed == real.suppressed
    # Where buffered tuples are many and dense, the price of isolation does not pay.
    assert (found.loss < plain.loss) == (delay < 5000)
    fixed = run(tuples, replace(rule, sample_share=0))
    assert (fixed == found) == (delay < 5000)  # the sample grows with the buffer


def test_a_group_from_all_tuples_as_candidates_is_that_of_the_whole_search() -> None:
    tuples = _stream()
    price = {"k": 5, "l": 2, "delay": 90, "reuse_limit": 0, "price": 0.65, "age_weight": 1.0}
    whole = run(tuples, Rule(**price))
    assert run(tuples, Rule(**price, candidates=19, sample=91)) == whole
    assert run(tuples, Rule(**price, cheapest=1)) == whole  # 100 at least, and no more than 91 are buffered
    assert run(tuples, Rule(**price, candidates=1)) != whole
    assert run(tuples, Rule(**price, sample=20)) != whole
    assert run(tuples, Rule(**price, updates=False)) != whole
    for further in ({"learned": 1}, {"learned": 2}, {"beam": 3}, {"parts": 30}):
        assert run(tuples, Rule(**price, **further)) != whole


def test_a_beam_search_without_choice_gives_the_group_of_the_greedy_one() -> None:
    """A group of two has one place to fill, so more partial groups find no other."""
    tuples = _stream()
    assert run(tuples, Rule(k=2, delay=90, reuse_limit=0, beam=3)) == run(tuples, Rule(k=2, delay=90, reuse_limit=0))


def test_a_beam_as_wide_as_the_buffer_gives_the_group_that_loses_least() -> None:
    better = 0
    for seed in range(10):
        values = np.random.default_rng(seed).integers(0, 101, (60, 3))
        of_rule = {}
        for beam in (1, 200):
            search = prepare(_numbers(values), Rule(k=4, delay=12, reuse_limit=0, beam=beam), 0)
            process(search)
            of_rule[beam] = np.flatnonzero(search.release == search.release[0])
        groups = [[0, *others] for others in combinations(range(1, 13), 3)]
        least = min(groups, key=lambda group: np.ptp(values[group], axis=0).sum())
        assert of_rule[200].tolist() == least
        better += of_rule[1].tolist() != least
    assert better > 0  # than the greedy search


def test_a_partition_cuts_where_that_loses_least() -> None:
    random = np.random.default_rng(2)
    values = np.column_stack([100 * (np.arange(1000) % 2), random.integers(0, 60, 1000)])
    search = prepare(_numbers(values), Rule(k=10, delay=99, reuse_limit=0, parts=100), 0)
    process(search)
    groups = [values[search.release == number] for number in range(search.now.releases)]
    # Two halves of one value each, then cuts of the other attribute: 12 or 13 of 100 buffered tuples.
    assert np.mean([np.ptp(group[:, 0]) == 0 for group in groups]) > 0.8
    assert np.median([np.ptp(group[:, 1]) for group in groups]) < 30
    assert np.mean([len(group) for group in groups]) > 11


@pytest.mark.parametrize("learned", [1, 2])
def test_a_learned_price_is_higher_where_groups_of_due_tuples_lose_more(learned: int) -> None:
    random = np.random.default_rng(4)
    is_alone = random.random(3000) < 0.2
    values = np.where(is_alone[:, None], random.integers(30, 101, (3000, 2)), random.integers(0, 6, (3000, 2)))
    rule = Rule(k=5, delay=90, reuse_limit=0, price=1.0, learned=learned)
    search = prepare(_numbers(values), rule, 0)
    process(search)
    kind = search.region if learned == 1 else np.minimum(-4 * np.log2(np.maximum(search.radius, 1e-6)), 63).astype(int)
    cost = search.cost_of[kind]
    assert cost[is_alone].mean() > 3 * cost[~is_alone].mean()
    assert 0 < search.cost_of.max() < 0.5  # what a group loses above the mean
    loss = {each: run(_numbers(values), replace(rule, price=each)).loss for each in (0.0, 1.0)}
    assert loss[1.0] < loss[0.0]


def test_regions_of_a_learned_price_part_the_stream_by_its_attributes() -> None:
    tuples = _stream()
    found = regions(tuples)
    same = np.column_stack([tuples.numeric, tuples.categorical])
    assert 16 < len(np.unique(found)) <= 64
    assert all(len(np.unique(found[(same == one).all(axis=1)])) == 1 for one in same[:20])


def test_a_condition_that_every_class_satisfies_keeps_classes_of_k() -> None:
    tuples = _stream(2000)
    few = np.where(np.random.default_rng(1).random((2000, 1)) < 0.1, np.uint64(1), np.uint64(2))
    tuples = replace(tuples, sensitive=few)
    of_k, larger, castle = (
        replay(tuples, one.algorithm, one.privacy, one.parameters) for one in settings(tuples, 2, (), 5, 200)
    )
    # One in ten persons has the rare value, so that classes of five with two values hold half of the persons.
    assert 0.3 < of_k.suppressed < 0.7
    assert larger.suppressed < 0.01
    assert castle.suppressed < 0.1


def test_an_attacker_finds_the_release_of_a_person_among_those_that_fit() -> None:
    tuples = _stream()
    search = prepare(tuples, Rule(k=5, delay=90, reuse_limit=0, price=0.65, age_weight=1.0), 0)
    process(search)
    targets = np.flatnonzero(search.release >= 0)
    found = fitting(search, search.radius, 90, targets)
    assert np.array_equal(np.bincount(found.target[found.right]), np.ones(len(targets)))  # its own release always fits
    wrong = found.target[~found.right]
    assert 0 < len(wrong) < len(targets) * search.now.releases / 2
    guesses = guess(search, search.radius, 90, 0)
    assert 0.3 < guesses.chance < min(guesses.by_age, guesses.by_radius) < 1.0


@pytest.mark.parametrize(
    "rule",
    [
        Rule(k=5, l=2, delay=90, exchange=True),
        Rule(k=5, l=2, delay=90, initial_members=3),
        Rule(k=5, l=2, delay=90, spare_members=4, include_contained=1.0),
        Rule(k=5, l=2, delay=90, early_share=0.1, age_cost=1.0, isolation_bonus=0.5, age_weight=0.5),
        Rule(k=5, l=2, delay=90, price=0.65, age_weight=1.0),
        Rule(k=5, l=2, delay=90, price=0.65, age_weight=1.0, sample=30, neighbors=2, candidates=2, priced=4),
        Rule(k=5, l=2, delay=90, price=0.55, age_weight=0.5, sample=30, neighbors=2, updates=False, cheapest=8),
        Rule(k=5, l=2, delay=90, price=1.0, age_weight=1.0, learned=1),
        Rule(k=5, l=2, delay=90, price=0.65, learned=2, beam=3),
        Rule(k=5, l=2, delay=90, parts=30),
        Rule(k=5, l=2, delay=90, lookahead=5),
        Rule(k=5, l=2, delay=90, random_moment=True),
    ],
)
def test_every_rule_keeps_k_and_l_and_the_delay(rule: Rule) -> None:
    tuples = _stream()
    made = prepare(tuples, rule, 0)
    process(made)
    assert tuples.subject is not None
    for number in range(made.now.releases):
        members = np.flatnonzero(made.release == number)
        assert len(members) >= rule.k
        assert len(set(tuples.subject[members].tolist())) == len(members)
        assert len(set(tuples.sensitive[members, 0].tolist())) >= rule.l
    alone = [np.count_nonzero(made.release == how) for how in (REUSED, SUPPRESSED)]
    assert alone == [made.now.reused, made.now.suppressed]
    assert np.count_nonzero(made.release == NONE) == 0
    assert made.now.released + made.now.suppressed == len(tuples)
    assert made.waited.max() == rule.delay


@pytest.mark.parametrize("parameters", [NearestParameters(50, reuse_limit=100), CastleParameters(50, reuse_limit=100)])
def test_an_exact_arrival_names_the_person_of_a_singleton_release_and_a_jitter_hides_it(
    parameters: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "KNOWN", 0)
    tuples = zipf(1000, 1.0, 2, 50)
    exact = timing.attacked(tuples, Privacy(5), parameters, 0)
    assert exact.reused > 0.05
    assert exact.named == exact.guessed == 1
    # The person always is among the rows of all possible deadlines: without any such row, the share were infinite.
    hidden = timing.attacked(tuples, Privacy(5), replace(parameters, delay_jitter=0.5), 0)
    assert hidden.reused > 0.05
    assert 0 < hidden.named < hidden.guessed < 0.7
    assert hidden == timing.attacked(tuples, Privacy(5), replace(parameters, delay_jitter=0.5), 0, block=1)


def test_deadlines_with_a_jitter_are_those_of_the_buffer() -> None:
    tuples, parameters = zipf(300, 1.0, 2, 50), NearestParameters(1000, delay_jitter=0.5)
    context = ShardContext(tuples.policy, Privacy(5), parameters, tuples.members.schema, remembers=False)
    shard: Any = NEAREST.new(context, 0, bytes([3]) * 32)
    (block,) = tuples.blocks(300)
    shard.push(block)
    slots = np.flatnonzero(shard.arrays.tuples.cluster != NONE)
    due = timing._deadlines(shard.arrays.deadline_random, 300, 1000, 500)
    assert len(slots) == 300
    assert np.array_equal(due[shard.arrays.tuples.position[slots]], shard.arrays.by_position.due[slots])
