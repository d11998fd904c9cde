"""The paper's worked examples and the rules of its procedures (CASTLE, TDSC 2011, Sections 3 and 4), one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.castle.shard import CastleShard
from crenel.anonymity.buffer.arrays import CastleArrays, points
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.compiled.reference import share
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.boxes import enlargement
from tests.support.checker import diversity
from tests.support.drive import Setting, apply, in_blocks, judged
from tests.support.example_counts import examples
from tests.support.source import IDENTITY, Advance, Finish, Push, Row

# Figure 1: of five leaves Any loses 4/4, University 2/4, and what stands above Primary and Secondary School 1/4.
EDU = from_paths(
    [
        ("Primary School", "School", "Any"),
        ("Secondary School", "School", "Any"),
        ("Bachelor", "University", "Any"),
        ("Master", "University", "Any"),
        ("Ph.D.", "University", "Any"),
    ]
)
CUSTOMER = Policy({"Age": Numeric((18, 120)), "Edu": Categorical(EDU)}, passthrough=(IDENTITY,), subject="pid")
LINE = Policy({"x": Numeric((0, 1000))}, passthrough=(IDENTITY,), subject="pid")
TIMED = Policy({"x": Numeric((0, 1000))}, passthrough=(IDENTITY,), subject="pid", event_time="at")
ILL = Policy({"x": Numeric((0, 1000))}, sensitive=("illness",), passthrough=(IDENTITY,), subject="pid")


def setting(policy: Policy, k: int, l: int = 1, **parameters: Any) -> Setting:  # noqa: E741
    types = (*(pa.string() for _ in policy.sensitive), pa.int64())
    return Setting(
        policy, Privacy(k, l), Castle(**{"reuse_limit": 1000, **parameters}), types
    )  # as the paper, which keeps all


def customers(*tuples: tuple[str, int, str]) -> list[Row]:
    return [Row((age, edu), (i,), pid) for i, (pid, age, edu) in enumerate(tuples)]


def line(*tuples: tuple[str, float]) -> list[Row]:
    return [Row((x,), (i,), pid) for i, (pid, x) in enumerate(tuples)]


def ill(*tuples: tuple[str, float, str]) -> list[Row]:
    return [Row((x,), (illness, i), pid) for i, (pid, x, illness) in enumerate(tuples)]


class Cluster(NamedTuple):
    """An open cluster: its intervals, the labels of its ancestors, its size, and the positions of its tuples."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    labels: tuple[str, ...]
    size: int
    tuples: tuple[int, ...]


def gamma(castle: CastleShard) -> list[Cluster]:
    """Return the open clusters, oldest first."""
    arrays = castle.arrays
    clusters, tuples = arrays.clusters, arrays.tuples
    rows = sorted(clusters.rows[: arrays.now.open].tolist(), key=lambda row: int(clusters.id[row]))
    labels = [attribute.hierarchy.labels for attribute in castle.context.policy.categorical]
    nodes = (clusters.box.node - castle.offsets).tolist()
    return [
        Cluster(
            tuple(clusters.box.lower[row].tolist()),
            tuple(clusters.box.upper[row].tolist()),
            tuple(names[node] for names, node in zip(labels, nodes[row], strict=True)),
            int(clusters.subjects[row]),
            tuple(sorted(tuples.position[np.flatnonzero(tuples.cluster == row)].tolist())),
        )
        for row in rows
    ]


def opened(made: Setting, rows: Sequence[Row]) -> list[Cluster]:
    """Return the clusters after some tuples of which none is due."""
    castle = made.shard()
    assert len(apply(made, castle, Push(tuple(rows)))) == 0
    return gamma(castle)


class Published(NamedTuple):
    """A release: kind, interval of the first attribute, label of the ancestor, tuples, and what it states."""

    kind: str
    interval: tuple[float, float]
    label: str
    members: frozenset[int]
    subjects: int
    diversity: tuple[int, ...] = ()


def left(made: Setting, rows: Sequence[Row], key: bytes = bytes(32), *, to_the_end: bool = False) -> list[Published]:
    """Return the releases of a shard for some tuples, or for them as the whole input; the checker finds no fault."""
    steps = in_blocks(rows, max(len(rows), 1))
    outputs, _, _ = judged(made, steps if to_the_end else steps[:1], key)
    trees = [attribute.hierarchy for attribute in made.policy.categorical]
    found = []
    for out in outputs:
        for i in range(len(out)):
            members = out.members[-1][out.offsets[i] : out.offsets[i + 1]]
            label = trees[0].labels[out.node[i, 0]] if trees else ""
            interval = (float(out.lower[i, 0]), float(out.upper[i, 0]))
            diversity = tuple(out.diversity[i].tolist())
            found.append(
                Published(KINDS[out.kind[i]], interval, label, frozenset(members), int(out.subjects[i]), diversity)
            )
    return found


def test_example_1_a_cluster_has_the_least_intervals_and_counts_persons() -> None:
    tuples = [("pid1", 25, "Bachelor"), ("pid2", 26, "Master"), ("pid3", 30, "Ph.D.")]
    made = setting(CUSTOMER, 9, delay=Delay(99), max_clusters=1)
    [cluster] = opened(made, customers(*tuples))
    assert cluster == Cluster((25,), (30,), ("University",), 3, (0, 1, 2))
    [again] = opened(made, customers(*tuples, tuples[0]))
    assert again == Cluster((25,), (30,), ("University",), 3, (0, 1, 2, 3))


@entry
def enlargements(shard: CastleArrays, slot: int) -> NDArray[np.float64]:
    """Enlargement of each open cluster by a tuple, by id of the cluster."""
    found = np.zeros(shard.now.open)
    for i in range(len(found)):
        row = shard.clusters.rows[i]
        found[shard.clusters.id[row]] = enlargement(
            shard.domain, shard.clusters.box, row, points(shard.tuples), slot, np.inf
        )
    return found


EXAMPLE_2 = customers(
    ("a", 18, "Primary School"),
    ("b", 26, "Bachelor"),
    ("c", 22, "Secondary School"),
    ("d", 28, "Master"),
)


def test_example_2_enlargement() -> None:
    made = setting(CUSTOMER, 9, delay=Delay(99), max_clusters=2)
    castle = made.shard()
    castle.push(made.block(EXAMPLE_2))
    first, second = gamma(castle)
    assert first == Cluster((18,), (22,), ("School",), 2, (0, 2))
    assert second == Cluster((26,), (28,), ("University",), 2, (1, 3))
    [slot] = castle._admit(made.block([Row((24, "Bachelor"), (4,), "t")]))
    found = enlargements(share(castle.arrays), slot)
    assert found[0] == pytest.approx((6 / 102 + 4 / 4) / 2 - (4 / 102 + 1 / 4) / 2, abs=1e-15)
    assert found[1] == pytest.approx((4 / 102 + 2 / 4) / 2 - (2 / 102 + 2 / 4) / 2, abs=1e-15)
    assert int(found[0] * 1000) / 1000 == 0.384
    assert round(found[1], 2) == 0.01


def test_example_2_the_tuple_goes_where_it_enlarges_least() -> None:
    made = setting(CUSTOMER, 9, delay=Delay(99), max_clusters=2)
    first, second = opened(made, [*EXAMPLE_2, Row((24, "Bachelor"), (4,), "t")])
    assert first == Cluster((18,), (22,), ("School",), 2, (0, 2))
    assert second == Cluster((24,), (28,), ("University",), 3, (1, 3, 4))


# Three that lose all make tau large; then C2 is released under [26, 28] and University.
C2 = [
    ("p1", 18, "Primary School"),
    ("p2", 120, "Ph.D."),
    ("p3", 60, "Secondary School"),
    ("p4", 26, "Bachelor"),
    ("p5", 28, "Master"),
    ("p6", 27, "Master"),
]
REUSING = setting(CUSTOMER, 3, delay=Delay(2), max_clusters=1)


def test_example_3_a_tuple_of_a_small_cluster_leaves_under_a_published_generalization() -> None:
    c3 = [("p7", 26, "Bachelor"), ("p7", 24, "Master"), ("p7", 27, "Master")]
    assert left(REUSING, customers(*C2, *c3)) == [
        Published("cluster", (18, 120), "Any", frozenset({0, 1, 2}), 3),
        Published("cluster", (26, 28), "University", frozenset({3, 4, 5}), 3),
        Published("reused", (26, 28), "University", frozenset({6}), 3),
    ]


def test_what_was_published_decides_not_the_bounds_behind_it() -> None:
    # [Bachelor, Master] stands behind University; Ph.D. lies outside the former and inside the latter.
    late = [("p7", 27, "Ph.D."), ("p7", 24, "Master"), ("p7", 27, "Master")]
    assert left(REUSING, customers(*C2, *late))[-1] == Published("reused", (26, 28), "University", frozenset({6}), 3)


def test_a_cluster_that_is_large_enough_is_released_and_not_reused() -> None:
    again = [("p7", 26, "Bachelor"), ("p8", 26, "Bachelor"), ("p9", 26, "Bachelor")]
    assert left(REUSING, customers(*C2, *again))[-1] == Published(
        "cluster", (26, 26), "Bachelor", frozenset({6, 7, 8}), 3
    )


def test_examples_4_and_5_the_choice_among_published_generalizations_is_random() -> None:
    c3 = [("p7", 24, "Bachelor"), ("p8", 27, "Master"), ("p9", 25, "Master")]
    rows = customers(*C2, *c3, ("p1", 26, "Master"), ("p1", 25, "Master"), ("p1", 26, "Master"), ("p1", 24, "Master"))
    chosen: Counter[tuple[float, float]] = Counter()
    for seed in range(400):
        *_, both, only = left(REUSING, rows, seed.to_bytes(32, "big"))
        assert [(found.kind, *found.members) for found in (both, only)] == [("reused", 9), ("reused", 10)]
        assert only.interval == (24, 27)
        chosen[both.interval] += 1
    assert set(chosen) == {(26, 28), (24, 27)}
    # Fair to five standard deviations: the best of them (C2) is chosen as often as the other.
    assert abs(chosen[26, 28] - 200) < 50


def test_tau_is_the_mean_loss_of_the_latest_releases_and_reuse_does_not_count() -> None:
    made = setting(LINE, 2, delay=Delay(1), max_clusters=1, loss_window=2)
    castle = made.shard()
    assert castle.counters.tau == 0
    taus = []
    pairs = [(("a", 0), ("b", 400)), (("c", 0), ("d", 200)), (("e", 0), ("e", 200)), (("f", 200),)]
    for number, pair in enumerate(pairs):
        castle.push(made.block([Row((x,), (10 * number + i,), pid) for i, (pid, x) in enumerate(pair)]))
        taus.append(castle.counters.tau)
    assert castle.counters.releases["reused"] == 1
    assert taus == pytest.approx([0.4, 0.3, 0.3, 0.1])


def test_only_losses_below_tau_are_kept_for_reuse() -> None:
    made = setting(LINE, 2, delay=Delay(1), max_clusters=1)
    alike = [("a", 0), ("b", 400), ("c", 0), ("d", 400)]  # tau is what both lose: nothing is below it
    assert [found.kind for found in left(made, line(*alike, ("e", 100), ("e", 100)))] == ["cluster", "cluster"]
    better = [("a", 0), ("b", 400), ("c", 0), ("d", 399)]
    kinds = [found.kind for found in left(made, line(*better, ("e", 100), ("e", 100)))]
    assert kinds == ["cluster", "cluster", "reused"]


def test_before_any_release_only_equal_tuples_share_a_cluster() -> None:
    made = setting(LINE, 9, delay=Delay(99))
    clusters = opened(made, line(("a", 0), ("b", 0), ("c", 1), ("d", 0)))
    assert [cluster.tuples for cluster in clusters] == [(0, 1, 3), (2,)]


def with_tau(tau: float, rows: Iterable[tuple[str, float]]) -> list[Cluster]:
    """Return the clusters, two at most, that tuples get into where tau stands; the first of them holds one at 1000."""
    made = setting(TIMED, 2, delay=Delay(event_time=1), max_clusters=2)
    castle = made.shard()
    first = [("p", 0.0, 0), ("q", 1000.0, 10), ("r", 1000 * tau, 0)]  # p and r leave together
    for step in (
        Push(tuple(Row((x,), (i,), pid, time) for i, (pid, x, time) in enumerate(first))),
        Advance(1),
        Push(tuple(Row((x,), (3 + i,), pid, 10) for i, (pid, x) in enumerate(rows))),
    ):
        apply(made, castle, step)
    assert castle.counters.tau == pytest.approx(tau)
    assert castle.counters.released == 2
    return gamma(castle)


def test_a_cluster_may_grow_up_to_tau_and_then_another_is_opened() -> None:
    clusters = with_tau(0.1, [("a", 950), ("b", 850), ("c", 750)])
    assert [cluster.tuples for cluster in clusters] == [(1, 3), (4, 5)]


def test_where_no_more_clusters_may_be_opened_the_nearest_grows_beyond_tau() -> None:
    clusters = with_tau(0.1, [("a", 500), ("b", 200)])
    assert [(cluster.lower, cluster.upper) for cluster in clusters] == [((1000,), (1000,)), ((200,), (500,))]


def test_of_equally_near_clusters_one_that_stays_within_tau_is_taken() -> None:
    # [0, 300] and 1000 are as far from 650, and the one that would pass tau has fewer persons.
    clusters = with_tau(0.5, [("a", 0), ("a", 300), ("b", 1000), ("t", 650)])
    assert [cluster.tuples for cluster in clusters] == [(1, 5, 6), (3, 4)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("a", 0), ("b", 0), ("c", 10), ("t", 5)], [(0, 1), (2, 3)]),  # the smaller
        ([("a", 0), ("a", 0), ("b", 10), ("c", 10), ("t", 5)], [(0, 1, 4), (2, 3)]),  # by persons, not by tuples
        ([("a", 0), ("b", 10), ("t", 5)], [(0, 2), (1,)]),  # the older
    ],
)
def test_of_equally_near_clusters_the_smaller_is_taken(
    rows: list[tuple[str, float]], expected: list[tuple[int, ...]]
) -> None:
    clusters = opened(setting(LINE, 9, delay=Delay(99), max_clusters=2), line(*rows))
    assert [cluster.tuples for cluster in clusters] == expected


def test_a_cluster_shrinks_when_a_tuple_leaves_it_alone() -> None:
    made = setting(LINE, 9, delay=Delay(2), max_clusters=1)
    castle = made.shard()
    castle.push(made.block(line(("a", 0), ("b", 500), ("b", 600))))  # nine persons do not wait: the first is suppressed
    assert gamma(castle) == [Cluster((500,), (600,), (), 1, (1, 2))]


def test_an_outlier_is_suppressed_where_most_clusters_are_larger() -> None:
    rows = line(("a", 0), ("b", 50), ("c", 50), ("d", 100), ("e", 100))
    _, counters, _ = judged(setting(LINE, 3, delay=Delay(4)), [Push(tuple(rows))])
    assert counters.suppressed == {"outlier": 1, "too_few_subjects": 0, "too_little_diversity": 0}


def test_half_of_the_clusters_are_not_most() -> None:
    rows = line(("a", 0), ("b", 50), ("c", 50))
    assert left(setting(LINE, 3, delay=Delay(2)), rows) == [Published("merged", (0, 50), "", frozenset({0, 1, 2}), 3)]


def test_larger_means_more_persons() -> None:
    rows = line(("a", 0), ("b", 50), ("b", 50), ("c", 100), ("c", 100))
    assert left(setting(LINE, 3, delay=Delay(4)), rows) == [Published("merged", (0, 100), "", frozenset(range(5)), 3)]


def test_too_few_persons_or_values_are_suppressed_for_that_reason() -> None:
    few = [Row((1,), (i,), f"p{i % 2}") for i in range(5)]
    _, counters, _ = judged(setting(LINE, 3, delay=Delay(9)), in_blocks(few, 9))
    assert counters.suppressed == {"outlier": 0, "too_few_subjects": 5, "too_little_diversity": 0}
    alike = ill(*((f"p{i}", 1, "flu") for i in range(5)))
    _, counters, _ = judged(setting(ILL, 3, 2, delay=Delay(9)), in_blocks(alike, 9))
    # Suppressed one by one: the last two are too few as well.
    assert counters.suppressed == {"outlier": 0, "too_few_subjects": 2, "too_little_diversity": 3}


def test_merging_takes_the_nearest_and_counts_persons_over_the_union() -> None:
    # Sizes add up to three at 20, but those are two persons; 1000 is not needed.
    rows = line(("a", 0), ("e", 1000), ("d", 100), ("a", 10), ("b", 20))
    assert left(setting(LINE, 3, delay=Delay(4)), rows) == [
        Published("merged", (0, 100), "", frozenset({0, 2, 3, 4}), 3)
    ]


def test_merging_goes_on_until_l_holds() -> None:
    rows = ill(("a", 0, "flu"), ("b", 10, "flu"), ("c", 20, "cold"), ("d", 30, "flu"))
    assert left(setting(ILL, 2, 2, delay=Delay(3)), rows) == [
        Published("merged", (0, 20), "", frozenset({0, 1, 2}), 3, (2,)),
    ]


def test_of_equally_near_clusters_the_older_is_merged() -> None:
    rows = line(("a", 50), ("b", 60), ("c", 40))
    assert left(setting(LINE, 2, delay=Delay(2)), rows) == [Published("merged", (50, 60), "", frozenset({0, 1}), 2)]


def released_at_once(
    k: int,
    rows: Sequence[Row],
    l: int = 1,  # noqa: E741
    key: bytes = bytes(32),
    policy: Policy = LINE,
) -> list[Published]:
    """Return the release of one cluster of all tuples."""
    return left(setting(policy, k, l, delay=Delay(len(rows) - 1), max_clusters=1), rows, key)


@pytest.mark.parametrize(("persons", "parts"), [(3, 1), (5, 1), (6, 2), (8, 2), (9, 3), (11, 3)])
def test_a_cluster_of_twice_k_persons_is_split_into_as_many_parts_as_k_allows(persons: int, parts: int) -> None:
    found = released_at_once(3, line(*((f"p{i}", i) for i in range(persons))))
    assert [release.kind for release in found] == (["split"] * parts if parts > 1 else ["cluster"])
    assert all(release.subjects >= 3 for release in found)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1000)), min_size=1, max_size=60),
    st.binary(min_size=32, max_size=32),
)
@settings(max_examples=examples(100))
def test_each_part_of_a_split_has_k_persons_and_each_tuple_is_in_one(
    k: int, tuples: list[tuple[int, int]], key: bytes
) -> None:
    persons = len({pid for pid, _ in tuples})
    found = released_at_once(k, line(*((f"p{pid}", x) for pid, x in tuples)), key=key)
    if persons < k:
        assert not found
        return
    assert 1 <= len(found) <= max(len(tuples) // k, 1)
    assert len(found) > 1 or persons < 2 * k
    assert all(release.subjects >= k for release in found)
    assert sorted(member for release in found for member in release.members) == list(range(len(tuples)))


@given(st.permutations(range(100)), st.binary(min_size=32, max_size=32))
@settings(max_examples=examples(50))
def test_the_tuples_of_a_person_part_where_they_lie_apart(order: list[int], key: bytes) -> None:
    # Twenty persons have been to the same five places, which lie 200 apart.
    found = released_at_once(4, line(*((f"p{i // 5}", 200 * (i % 5) + i // 5) for i in order)), key=key)
    assert len(found) == 25
    assert sum(upper - lower < 20 for lower, upper in (release.interval for release in found)) >= 20


@given(st.permutations(range(12)), st.binary(min_size=32, max_size=32))
@settings(max_examples=examples(50))
def test_a_split_finds_groups_that_lie_apart(order: list[int], key: bytes) -> None:
    # Four groups of three neighbors: whichever is drawn first takes its own.
    found = released_at_once(3, line(*((f"p{i}", 200 * (i // 3) + i % 3) for i in order)), key=key)
    assert sorted(release.interval for release in found) == [(0, 2), (200, 202), (400, 402), (600, 602)]


@pytest.mark.parametrize(("flu", "cold", "k", "parts"), [(8, 4, 3, 4), (6, 6, 4, 3), (10, 5, 6, 2)])
def test_parts_keep_the_proportions_of_sensitive_values(flu: int, cold: int, k: int, parts: int) -> None:
    rows = ill(*((f"p{i}", 37 * i % 100, "flu" if i < flu else "cold") for i in range(flu + cold)))
    for seed in range(20):
        found = released_at_once(k, rows, 2, bytes([seed]) * 32, ILL)
        assert len(found) == parts
        for release in found[: (flu + cold) // k]:
            ill_with_flu = sum(member < flu for member in release.members)
            assert abs(ill_with_flu / len(release.members) - flu / (flu + cold)) <= 1 / k


def test_a_cluster_that_is_not_diverse_enough_to_be_split_stays_whole() -> None:
    rows = ill(*((f"p{i}", i, "cold" if i == 3 else "flu") for i in range(8)))
    assert released_at_once(3, rows, 2, policy=ILL) == [Published("cluster", (0, 7), "", frozenset(range(8)), 8, (2,))]


@given(
    st.integers(2, 5),
    st.lists(
        st.tuples(st.integers(0, 15), st.integers(0, 1000), st.sampled_from("aaaabc"), st.sampled_from("xxy")),
        min_size=1,
        max_size=60,
    ),
    st.booleans(),
    st.binary(min_size=32, max_size=32),
)
@settings(max_examples=examples(150))
def test_each_part_of_a_diverse_split_is_diverse_and_each_tuple_is_in_one(
    k: int, tuples: list[tuple[int, int, str, str]], both: bool, key: bytes
) -> None:
    policy = Policy(
        {"x": Numeric((0, 1000))},
        sensitive=("illness", "ward") if both else ("illness",),
        passthrough=(IDENTITY,),
        subject="pid",
    )
    rows = [
        Row((x,), (illness, ward, i) if both else (illness, i), pid) for i, (pid, x, illness, ward) in enumerate(tuples)
    ]
    found = released_at_once(k, rows, 2, key, policy)
    persons = len({pid for pid, *_ in tuples})
    diverse = has_two(tuples, 2) and (not both or has_two(tuples, 3))
    assert bool(found) == (persons >= k and diverse)
    if found:
        assert all(release.subjects >= k and min(release.diversity) >= 2 for release in found)
        assert sorted(member for release in found for member in release.members) == list(range(len(tuples)))


def has_two(tuples: list[tuple[int, int, str, str]], column: int) -> bool:
    """Return whether no value of a column belongs to all persons."""
    of: dict[int, set[str]] = {}
    for pid, *others in tuples:
        of.setdefault(pid, set()).add(str(others[column - 1]))
    return diversity(list(of.values())) > 1


@pytest.mark.parametrize("delta", [0, 1, 5])
def test_a_tuple_leaves_when_delta_later_ones_have_come(delta: int) -> None:
    made = setting(LINE, 1, delay=Delay(delta))
    castle = made.shard()
    for i in range(10):
        out = castle.push(made.block([Row((i,), (i,), "p")])).releases
        assert out.members[-1] == ([i - delta] if i >= delta else [])


def test_at_the_end_tuples_leave_in_order_of_expiry() -> None:
    made = setting(TIMED, 1, delay=Delay(event_time=10**6))
    rows = tuple(Row((i,), (i,), "p", time) for i, time in enumerate([5, 3, 9, 1, 3]))
    outputs, _, _ = judged(made, [Push(rows), Finish()])
    assert outputs[-1].members[-1] == [3, 1, 4, 0, 2]


def test_members_of_a_release_leave_in_any_order() -> None:
    orders = set()
    for seed in range(20):
        made = setting(LINE, 3, delay=Delay(3), max_clusters=1)
        castle = made.shard(bytes([seed]) * 32)
        rows = line(("a", 0), ("b", 1), ("c", 2), ("d", 3))
        orders.add(tuple(castle.push(made.block(rows)).releases.members[-1]))
    assert len(orders) > 10
