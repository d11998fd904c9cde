"""Invariants of nearest release, on any stream and under any policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest import stored_radii
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.nearest.stored_radii import RADII
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.privacy_model import ConfiguredModels
from crenel.anonymity.privacy_models.alpha_k_anonymity import ALPHA
from crenel.anonymity.privacy_models.entropy_diversity import ENTROPY_L
from crenel.anonymity.privacy_models.recursive_diversity import RECURSIVE
from crenel.state.codec import StateError
from crenel.state.radii import Radii
from tests.support.drive import KEY, Kept, apply, columns_of, judged, steps_of
from tests.support.example_counts import FEW, LAWS
from tests.support.nearest_drive import NearestSetting, nearest_cases
from tests.support.settings import models_of
from tests.support.source import IDENTITY, Finish, Forget, Push, Row
from tests.support.space import Space
from tests.support.strategies import Case, cuts


@given(nearest_cases(timed=True, delay=Delay(event_time=7)), cuts)
@LAWS
def test_event_time_bounds_the_delay_however_late_tuples_come(case: Case, cut: tuple[int, ...]) -> None:
    judged(case.setting, case.steps(cut))


@given(nearest_cases(suppression="generalize"), cuts)
@FEW
def test_generalize_publishes_every_tuple(case: Case, cut: tuple[int, ...]) -> None:
    _, counters, checker = judged(case.setting, case.steps(cut))
    assert counters.released == len(case.rows)
    assert not checker.reasons


# Stored radii of the buffered tuples, with a price of isolation.


def crowded(rows: int, delay: int = 300) -> tuple[NearestSetting, list[Row]]:
    """Return a setting with a price and a stream of crowded and isolated tuples."""
    random = np.random.default_rng(7)
    setting = NearestSetting(POLICY, Privacy(4), Nearest(Delay(delay), isolation_price=1.0), (pa.string(), pa.int64()))
    x, y = np.minimum(random.exponential(1, rows), 8), np.minimum(random.exponential(2, rows), 16)
    who = random.integers(0, rows // 2, rows)
    return setting, [Row((float(x[i]), float(y[i]), "abcd"[i % 4]), ("u", i), int(who[i])) for i in range(rows)]


def radii_of(kept: Kept) -> dict[int, float]:
    """Return the radius of each buffered tuple, by position."""
    arrays = kept.live.arrays
    isolation, position = arrays.isolation, arrays.tuples.position
    found = [p for p in range(isolation.now.begin, isolation.now.end) if isolation.line.slot[p] >= 0]
    return {int(position[isolation.line.slot[p]]): float(isolation.radius[p]) for p in found}


class Priced:
    """The rule of a price in plain steps: each radius and each cost is computed anew, for all buffered tuples."""

    def __init__(self, setting: NearestSetting, rows: list[Row]) -> None:
        self.k, self.delay = setting.privacy.k, setting.algorithm.delay.tuples
        self.price = setting.algorithm.isolation_price
        self.xy = np.array([row.values[:2] for row in rows]) / (8.0, 16.0)
        self.z = np.array(["abcd".index(str(row.values[2])) for row in rows])
        self.who = np.array([row.subject for row in rows])
        (tree,) = Space(POLICY).trees
        leaves = [tree.leaf[label] for label in "abcd"]
        subsets = [[leaves[i] for i in range(4) if bits >> i & 1] for bits in range(1, 16)]
        self.loss_of = np.array([0.0, *(tree.loss(tree.ancestor(subset)) for subset in subsets)])
        self.radius = np.ones(len(rows))
        self.waiting = np.zeros(0, np.int64)
        self.classes: list[set[int]] = []
        for newest in range(len(rows)):
            self.measure(newest)
            self.waiting = np.append(self.waiting, newest)
            while self.waiting[0] + self.delay <= newest:
                self.release(newest)
        while len(self.waiting):
            self.release(len(rows) - 1)

    def growth(self, group: list[int], others: NDArray[np.int64]) -> NDArray[np.float64]:
        own, more = self.xy[group], self.xy[others]
        wide = np.maximum(own.max(axis=0), more) - np.minimum(own.min(axis=0), more)
        bits = np.bitwise_or.reduce(1 << self.z[group])
        numeric = (wide - np.ptp(own, axis=0)).sum(axis=1)
        found: NDArray[np.float64] = (numeric + self.loss_of[bits | 1 << self.z[others]] - self.loss_of[bits]) / 3
        return found

    def measure(self, newest: int) -> None:
        sample = max(256, (len(self.waiting) + 1) // 10)
        neighbors = max(round(6 * 256 / sample), 1)
        others = self.waiting[self.who[self.waiting] != self.who[newest]][-sample:]
        distance = self.growth([newest], others)
        near = np.argsort(distance, kind="stable")[:neighbors]
        if len(near) == neighbors:
            self.radius[newest] = min(distance[near[-1]], 1.0)
        own, shrunk = others[near], np.maximum(distance[near], 0.9 * self.radius[others[near]])
        self.radius[own] = np.minimum(shrunk, self.radius[own])

    def release(self, newest: int) -> None:
        waiting, due = self.waiting, int(self.waiting[0])
        share = np.maximum(waiting + self.delay - newest, 0) / self.delay
        weight, bias = 1 + 0.5 * share, -self.price * self.radius[waiting] * (1 - share)
        cost = self.growth([due], waiting) * weight + bias
        is_candidate = cost <= np.sort(cost)[: max(100, 8 * self.k)][-1]
        group = [due]
        while len(group) < self.k:
            is_new = ~np.isin(self.who[waiting], self.who[group])
            if not is_new.any():
                break
            chosen = is_new & is_candidate if (is_new & is_candidate).any() else is_new
            cost = self.growth(group, waiting) * weight + bias
            group.append(int(waiting[np.argmin(np.where(chosen, cost, np.inf))]))
        if len(group) == self.k:
            self.classes.append({*group})
        self.waiting = waiting[~np.isin(waiting, group if len(group) == self.k else [due])]


@pytest.mark.parametrize(("rows", "delay"), [(700, 60), (1000, 400), (5000, 4000)])
def test_a_price_gives_the_classes_of_its_rule(rows: int, delay: int) -> None:
    setting, stream = crowded(rows, delay)
    found = [out for _, out in steps_of(setting, setting.shard(), [Push(tuple(stream)), Finish()])]
    classes = [{*out.members[1][a:b]} for out in found for a, b in zip(out.offsets, out.offsets[1:], strict=False)]
    assert classes == Priced(setting, stream).classes
    assert len(classes) > rows / 5


def test_radii_are_stored_where_they_change_and_a_restore_continues_with_them() -> None:
    setting, rows = crowded(3000)
    kept, whole, rows_written, rows_changed = Kept(setting), setting.shard(), 0, 0
    for first in range(0, len(rows), 30):
        step = Push(tuple(rows[first : first + 30]))
        before, entries = radii_of(kept), dict(kept.stored.entries.get(RADII, {}))
        assert columns_of([kept.take(step)]) == columns_of([apply(setting, whole, step)])
        after, stored = radii_of(kept), {n: Radii.from_bytes(b) for n, b in kept.stored.entries[RADII].items()}
        assert all(kept.stored.entries[RADII][number] == entries[number] for number in entries.keys() & stored.keys())
        written = stored[max(stored)]
        changed = {p for p, radius in after.items() if before.get(p) != radius}
        assert changed <= set(written.position.tolist())
        rows_written, rows_changed = rows_written + len(written.position), rows_changed + len(changed)
        assert sum(len(entry.position) for entry in stored.values()) <= 4 * len(after) + 1024 + len(written.position)
        newest: dict[int, float] = {}
        for _, entry in sorted(stored.items()):
            newest |= dict(zip(entry.position.tolist(), entry.radius.tolist(), strict=True))
        assert {p: newest[p] for p in after} == after
        if first % 90 == 0:
            kept.restore()
            assert radii_of(kept) == after
    assert len(set(after.values())) > 20
    # Only an entry that few tuples still need is written anew.
    assert rows_written < 1.2 * rows_changed


def test_without_a_price_stored_radii_are_removed_and_with_one_again_they_are_measured() -> None:
    setting, rows = crowded(600)
    kept = Kept(setting)
    kept.take(Push(tuple(rows[:400])))
    kept.restore(replace(setting, algorithm=replace(setting.algorithm, isolation_price=0.0)))
    kept.take(Push(tuple(rows[400:500])))
    assert not kept.stored.entries[RADII]
    kept.restore(setting)
    measured = radii_of(kept)
    assert len(measured) == kept.live.counters.buffered
    assert min(measured.values()) < 0.1
    kept.take(Push(()))
    kept.restore()
    assert radii_of(kept) == measured


def test_a_forgotten_person_has_shaped_no_radius() -> None:
    setting, rows = crowded(200)
    others = [row for row in rows if row.subject % 3]
    kept, never = Kept(setting), Kept(setting)
    kept.take(Push(tuple(rows)))
    kept.take(Forget(tuple({row.subject for row in rows if not row.subject % 3})))
    never.take(Push(tuple(others)))
    assert list(radii_of(kept).values()) == list(radii_of(never).values())
    assert len(kept.stored.entries[RADII]) == 1


def test_damaged_radii_are_refused() -> None:
    for radius in (np.full(9, np.nan), np.full(9, 1.5), np.zeros(8), np.zeros(9, np.int64)):
        with pytest.raises(StateError, match="radii state of shard 0"):
            stored_radii.read({0: Radii(np.arange(9), radius).to_bytes()}, "shard 0")


# Members of each release, by a search in plain Python.

TREE = from_paths([("a", "ab", "*"), ("b", "ab", "*"), ("c", "cd", "*"), ("d", "cd", "*")])
POLICY = Policy(
    {"x": Numeric((0.0, 8.0)), "y": Numeric((0.0, 16.0)), "z": Categorical(TREE)},
    sensitive=("s",),
    passthrough=(IDENTITY,),
    subject="who",
)
crowds = st.lists(
    st.tuples(st.integers(0, 8).map(float), st.integers(0, 16).map(float), st.sampled_from("abcd"), st.integers(0, 15)),
    min_size=4,
    max_size=40,
)


@given(crowds, st.integers(2, 4), st.integers(2, 15), st.lists(st.sampled_from("uvw"), min_size=40, max_size=40))
@LAWS
def test_each_next_member_is_one_that_enlarges_the_group_least(
    crowd: list[tuple[float, float, str, int]], k: int, delay: int, values: list[str]
) -> None:
    privacy = Privacy(k, 2 if delay % 2 else 1)
    setting = NearestSetting(
        POLICY, privacy, Nearest(Delay(delay, jitter=0.0), reuse_limit=0), (pa.string(), pa.int64())
    )
    rows = [Row((x, y, z), (values[i], i), who) for i, (x, y, z, who) in enumerate(crowd)]
    space = Space(POLICY)
    waiting: list[int] = []
    steps = [*(Push((row,)) for row in rows), Finish()]
    for position, (_, out) in enumerate(steps_of(setting, setting.shard(), steps)):
        waiting += [position] if position < len(rows) else []
        withheld = set(out.suppressed_position.tolist())
        for i, (start, stop) in enumerate(zip(out.offsets, out.offsets[1:], strict=False)):
            assert out.kind[i] == 0
            members = set(out.members[1][start:stop])
            due = next(p for p in waiting if p not in withheld)  # what was withheld before it was due before
            waiting = [p for p in waiting if p >= due]
            assert is_grown(space, rows, waiting, due, members, privacy)
            waiting = [p for p in waiting if p not in members]
        waiting = [p for p in waiting if p not in withheld]


def is_grown(
    space: Space, rows: list[Row], waiting: list[int], first: int, members: set[int], privacy: Privacy
) -> bool:
    """Return whether a group may grow in some order of the members."""
    points = {position: space.point(rows[position]) for position in waiting}

    def loss(group: list[int], more: int) -> float:
        return space.loss(space.around([points[p] for p in (*group, more)]), space.nothing_seen())

    def lacking(group: list[int]) -> int:
        return max(privacy.l - len({rows[p].published[0] for p in group}), 0)

    size = balanced_size(rows, waiting, privacy)

    def grows(group: list[int]) -> bool:
        if len(group) >= size and not lacking(group):
            return set(group) == members
        persons = {rows[p].subject for p in group}
        others = [p for p in waiting if rows[p].subject not in persons]
        if lacking(group) and cohort_size(privacy) * lacking(group) >= size - len(group):
            others = [p for p in others if lacking([*group, p]) < lacking(group)]
            cohorts = [
                cohort
                for cohort in permutations(sorted(members - set(group)), cohort_size(privacy))
                if len(persons | {rows[p].subject for p in cohort}) == len(persons) + len(cohort)
                and lacking([*group, *cohort]) < lacking(group)
            ]
            if any(grows([*group, *cohort]) for cohort in cohorts):
                return True
        if not others and len(group) >= privacy.k and not lacking(group):  # the persons are too few for more
            return set(group) == members
        if not others:  # all that waits leaves together
            return members == set(waiting)
        least = min(loss(group, p) for p in others)
        nearest = [p for p in others if loss(group, p) <= least + 1e-9]
        return any(grows([*group, p]) for p in nearest if p in members or members == set(waiting))

    return grows([first])


def cohort_size(privacy: Privacy) -> int:
    """Return the number of tuples that join together where a value is lacking."""
    return min(2, max((privacy.k - 1) // max(privacy.l - 1, 1), 1))


def test_lacking_values_come_with_the_nearest_neighbors_of_their_tuples() -> None:
    # No two distances are equal, so the order of cohorts is known. One in five with one helpful member is passed over.
    policy = Policy({"x": Numeric((0.0, 1.0)), "y": Numeric((0.0, 1.0))}, sensitive=("s",), passthrough=(IDENTITY,))
    setting = NearestSetting(policy, Privacy(6, 2), Nearest(Delay(40)), (pa.string(), pa.int64()))
    random = np.random.default_rng(5)
    points = random.random((1500, 2))
    rare = random.random(1500) < 0.35
    rows = [Row((x, y), ("v" if rare[i] else "u", i)) for i, (x, y) in enumerate(points.tolist())]
    waiting: list[int] = []
    accepted, passed, lonely = 0, 0, 0
    for position, (_, out) in enumerate(steps_of(setting, setting.shard(), [Push((row,)) for row in rows])):
        waiting.append(position)
        for start, stop in zip(out.offsets, out.offsets[1:], strict=False):
            members = list(out.members[1][start:stop])
            group = [waiting[0]]
            while len(group) < 4:
                group.append(nearest(points, group, set(waiting) - set(group)))
            if len(members) == 6 and len({bool(rare[p]) for p in group}) == 1:
                others, found = set(waiting) - set(group), False
                while len(others) > 1 and not found:
                    first = nearest(points, group, others)
                    second = nearest(points, [*group, first], others - {first})
                    others -= {first, second}
                    helpful = sum(bool(rare[p] != rare[group[0]]) for p in (first, second))
                    found = helpful > 0 and {first, second} == set(members) - set(group)
                    passed += helpful == 1 and not found
                accepted += found
                lonely += not found
            waiting = [p for p in waiting if p not in members]
    assert accepted > 30
    assert lonely <= accepted // 20  # no further cohort helped
    assert 0.05 * accepted < passed < 0.5 * accepted


def nearest(points: NDArray[np.float64], group: Sequence[int], others: set[int]) -> int:
    """Return the point that enlarges the box around a group least."""

    def width(more: int) -> float:
        held = points[[*group, more]]
        return float((held.max(axis=0) - held.min(axis=0)).sum())

    return min(others, key=width)


def balanced_size(rows: list[Row], waiting: list[int], privacy: Privacy) -> int:
    """Return the least size, k or more, of classes for which the values of those who wait suffice."""
    persons = {rows[p].subject for p in waiting}
    with_value = Counter(value for value, _ in {(rows[p].published[0], rows[p].subject) for p in waiting})

    def suffices(size: int) -> bool:
        classes = Fraction(len(persons), size)
        return sum(min(count, classes) for count in with_value.values()) >= privacy.l * classes

    return next((size for size in range(privacy.k, len(persons) + 1) if suffices(size)), privacy.k)


@pytest.mark.parametrize(
    ("k", "l", "further", "shares"),
    [
        (3, 2, (), (0.76, 0.24)),
        (4, 3, (), (0.5, 0.3, 0.2)),
        (5, 2, (), (0.9, 0.1)),
        (3, 1, ((ALPHA, 0.8),), (0.74, 0.26)),
        (3, 2, ((ALPHA, 0.8),), (0.74, 0.26)),
        (5, 1, ((ALPHA, 0.92),), (0.9, 0.1)),
        (3, 1, ((ENTROPY_L, 1.8),), (0.75, 0.15, 0.1)),
        (5, 1, ((RECURSIVE, (4.0, 2)),), (0.74, 0.26)),
    ],
)
def test_classes_are_larger_where_classes_of_k_would_use_up_rare_values(
    k: int,
    l: int,  # noqa: E741 - the field's own name for it
    further: ConfiguredModels,
    shares: tuple[float, ...],
) -> None:
    random = np.random.default_rng(k)
    setting = NearestSetting(
        POLICY,
        Privacy(k, l, models=models_of(further)),
        Nearest(Delay(100, jitter=0.0), reuse_limit=0),
        (pa.string(), pa.int64()),
    )
    values = random.choice(list("uvw")[: len(shares)], 2000, p=shares)
    points = zip(
        random.integers(0, 9, 2000), random.integers(0, 17, 2000), random.choice(list("abcd"), 2000), strict=True
    )
    rows = [Row((float(x), float(y), z), (values[i], i), i) for i, (x, y, z) in enumerate(points)]
    shard = setting.shard(KEY)
    apply(setting, shard, Push(tuple(rows)))
    # Classes of k suppress 300 at least for l, and 38 at least for the further models.
    assert sum(shard.counters.suppressed.values()) <= len(rows) // (50 if further else 250)


@pytest.mark.parametrize("further", [(ALPHA, 0.3), (ENTROPY_L, 5.0), (RECURSIVE, (1.0, 3))])
def test_classes_have_k_members_or_few_more_where_many_values_suffice(further: Any) -> None:
    random = np.random.default_rng(3)
    parameters = Nearest(Delay(300, jitter=0.0), reuse_limit=0)
    setting = NearestSetting(
        POLICY, Privacy(10, 1, models=models_of((further,))), parameters, (pa.string(), pa.int64())
    )
    values = random.choice(list("abcdefghijklmn"), 1500, p=np.arange(14, 0, -1) / 105)
    points = zip(
        random.integers(0, 9, 1500), random.integers(0, 17, 1500), random.choice(list("abcd"), 1500), strict=True
    )
    shard = setting.shard(KEY)
    apply(
        setting,
        shard,
        Push(tuple(Row((float(x), float(y), z), (values[i], i), i) for i, (x, y, z) in enumerate(points))),
    )
    # Rounding that left most persons of a class to one value took 16 to 27 members.
    assert shard.counters.released / shard.counters.releases["cluster"] < 12.5
