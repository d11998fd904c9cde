"""The checker accepts a lawful run, written by hand, and objects to each way of breaking it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from crenel.anonymity.algorithms.castle.algorithm import CastleParameters
from crenel.anonymity.algorithms.castle.shard import CastleCounters
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.outcomes import KINDS, SUPPRESSIONS
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.checker import Checker, Violation
from tests.support.drive import KEY
from tests.support.source import IDENTITY, Advance, Finish, Forget, Push, Row, Step

CITIES = from_paths([("Rome", "Italy", "*"), ("Milan", "Italy", "*"), ("Lima", "*")])
ROME, MILAN, LIMA, ITALY, ANY = (CITIES.labels.index(label) for label in ("Rome", "Milan", "Lima", "Italy", "*"))
POLICY = Policy(
    (Numeric("age", (0, 100)), Categorical("place", CITIES)),
    sensitive=("illness",),
    passthrough=(IDENTITY,),
    subject="who",
    event_time="at",
)
STREAM = (
    (10, "Rome", "flu", "A"),
    (20, "Milan", "cold", "B"),
    (50, "Lima", "flu", "C"),
    (50, "Lima", "cold", "D"),
    (50, "Lima", "flu", "E"),
    (90, "Rome", "flu", "E"),
    (90, "Milan", "cold", "F"),
    (0, "Rome", "flu", "G"),
    (0, "Rome", "cold", "H"),
    (50, "Milan", "flu", "I"),
)
ROWS = tuple(Row((age, place), (illness, i), who, 100 + i) for i, (age, place, illness, who) in enumerate(STREAM))


class Release(NamedTuple):
    """One release as the checker reads it; ``number`` is its id, ``None`` where the next one is meant."""

    kind: str
    members: tuple[int, ...]
    lower: float
    upper: float
    node: int
    loss: float
    event_time: int
    subjects: int = 2
    diversity: int = 2
    published: tuple[str, ...] | None = None
    number: int | None = None


class Suppressed(NamedTuple):
    reason: str
    position: int
    event_time: int


class Moment(NamedTuple):
    """A step with its releases."""

    step: Step
    releases: tuple[Release, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()


CLUSTER = Release("cluster", (1, 0), 10, 20, ITALY, 0.3, 101)
SECOND = Release("cluster", (2, 3), 50, 50, LIMA, 0.0, 103)
REUSED = Release("reused", (4,), 50, 50, LIMA, 0.0, 104)
PARTS = (
    Release("split", (5, 6), 90, 90, ITALY, 0.25, 106),
    Release("split", (8, 7), 0, 0, ROME, 0.0, 108),
)
LAST = Suppressed("too_few_subjects", 9, 109)
LEFT: dict[int, tuple[Release, ...]] = {3: (CLUSTER,), 5: (SECOND,), 7: (REUSED,), 8: PARTS}
GOOD = (*(Moment(Push((row,)), LEFT.get(i, ())) for i, row in enumerate(ROWS)), Moment(Finish(), (), (LAST,)))
TOTALS = CastleCounters(
    tuples_in=10,
    sampled_out=0,
    released=9,
    linked=0,
    suppressed={"outlier": 0, "too_few_subjects": 1, "too_little_diversity": 0},
    releases={"cluster": 2, "merged": 0, "split": 2, "reused": 1, "generalized": 0, "again": 0, "widened": 0},
    merges=0,
    splits=1,
    loss_sum=2 * 0.3 + 2 * 0.25,
    open_clusters=0,
    buffered=0,
    forgotten=0,
    tau=(0.3 + 0.0 + 0.25 + 0.0) / 4,
    oldest_waiting=0,
    longest_delay=3,
    delays=np.bincount([3, 2, 3, 2, 3, 3, 2, 1, 0, 0], minlength=128),
)


def written(moment: Moment, first: int, rows: Sequence[Row]) -> Releases:
    """Return the columns that a shard would return."""
    releases, suppressed = moment.releases, moment.suppressed
    members = [m for release in releases for m in release.members]
    illness = [
        value
        for release in releases
        for value in (release.published or [rows[m].published[0] if m < len(rows) else "flu" for m in release.members])
    ]
    sizes = [len(release.members) for release in releases]
    return Releases(
        release_id=np.array([first + i if r.number is None else r.number for i, r in enumerate(releases)], np.int64),
        kind=np.array([KINDS.index(release.kind) for release in releases], np.int8),
        subjects=np.array([release.subjects for release in releases], np.int64),
        tuples=np.array(sizes, np.int64),
        diversity=np.array([[release.diversity] for release in releases], np.int64).reshape(-1, 1),
        loss=np.array([release.loss for release in releases], np.float64),
        event_time=np.array([release.event_time for release in releases], np.int64),
        lower=np.array([[release.lower] for release in releases], np.float64).reshape(-1, 1),
        upper=np.array([[release.upper] for release in releases], np.float64).reshape(-1, 1),
        node=np.array([[release.node] for release in releases], np.int32).reshape(-1, 1),
        offsets=np.cumsum([0, *sizes]),
        members=(illness, members),
        linked=np.zeros(len(releases), np.int64),
        noise_expected=np.zeros((len(releases), 0)),
        noise_error=np.zeros((len(releases), 0)),
        suppressed_reason=np.array([SUPPRESSIONS.index(s.reason) for s in suppressed], np.int8),
        suppressed_position=np.array([s.position for s in suppressed], np.int64),
        suppressed_event_time=np.array([s.event_time for s in suppressed], np.int64),
    )


def judge(
    moments: Sequence[Moment],
    *,
    k: int = 2,
    l: int = 2,  # noqa: E741
    spoil: Callable[[Releases], Releases] = lambda out: out,
    **changed: Any,
) -> Checker:
    checker = Checker(POLICY, Privacy(k, l), replace(CastleParameters(3, reuse_limit=1000), **changed), KEY)
    released = 0
    for moment in moments:
        rows = [*checker.rows, *(moment.step.rows if isinstance(moment.step, Push) else ())]
        checker.observe(moment.step, spoil(written(moment, released, rows)))
        released += len(moment.releases)
    return checker


def with_left(
    changes: dict[int, tuple[Release, ...]], suppressed: dict[int, tuple[Suppressed, ...]] | None = None
) -> list[Moment]:
    """Return the good run, where other things leave after some tuples; 10 is the end of the input."""
    return [
        Moment(moment.step, changes.get(i, moment.releases), (suppressed or {}).get(i, moment.suppressed))
        for i, moment in enumerate(GOOD)
    ]


def with_rows(changes: dict[int, Row]) -> list[Moment]:
    """Return the good run, where other tuples came than those it published."""
    return [
        moment._replace(step=Push((changes.get(i, moment.step.rows[0]),))) if isinstance(moment.step, Push) else moment
        for i, moment in enumerate(GOOD)
    ]


def test_a_lawful_run_is_accepted_with_its_counters() -> None:
    judge(GOOD).agree(TOTALS)


def test_the_same_run_is_accepted_in_one_block() -> None:
    releases = tuple(release for moment in GOOD for release in moment.releases)
    checker = judge([Moment(Push(ROWS), releases), GOOD[-1]])
    checker.agree(TOTALS)


BROKEN: dict[str, tuple[list[Moment], str]] = {
    "a tuple missing at the end": (with_left({}, {10: ()}), "position 9 waits longer"),
    "a tuple missing from a release": (
        with_left({3: (CLUSTER._replace(members=(0,), event_time=100),)}),
        "fewer than k",
    ),
    "nothing left in time": (with_left({3: ()}), "position 0 waits longer"),
    "a tuple left one tuple late": (with_left({3: (), 4: (CLUSTER,)}), "position 0 waits longer"),
    "a tuple left twice": (with_left({5: (SECOND, SECOND)}), "position 2 left, though it does not wait"),
    "a tuple left twice in a release": (
        with_left({3: (CLUSTER._replace(members=(0, 1, 1)),)}),
        "position 1 left, though",
    ),
    "a tuple was released and suppressed": (with_left({}, {10: (LAST, LAST)}), "position 9 left, though"),
    "a tuple left before it came": (with_left({3: (CLUSTER._replace(members=(0, 1, 4)),)}), "never came"),
    "a tuple came from nowhere": (with_left({3: (CLUSTER._replace(members=(0, 1, 99)),)}), "never came"),
    "another value was published": (
        with_left({3: (CLUSTER._replace(published=("flu", "cold")),)}),
        "not the one that came",
    ),
    "a value below the interval": (
        with_left({3: (CLUSTER._replace(lower=11, loss=0.295),)}),
        "position 0 lies outside",
    ),
    "a value above the interval": (
        with_left({3: (CLUSTER._replace(upper=19, loss=0.295),)}),
        "position 1 lies outside",
    ),
    "a value outside the subtree": (
        with_left({3: (CLUSTER._replace(node=MILAN, loss=0.05),)}),
        "position 0 lies outside",
    ),
    "an interval wider than needed": (with_left({3: (CLUSTER._replace(upper=30, loss=0.35),)}), "least generalization"),
    "an ancestor higher than needed": (
        with_left({3: (CLUSTER._replace(node=ANY, loss=0.55),)}),
        "least generalization",
    ),
    "too few subjects": (with_rows({1: replace(ROWS[1], subject="A")}), "1 subjects, fewer than k"),
    "too few sensitive values": (
        with_rows({i: replace(ROWS[i], published=("cold", i)) for i in (0, 1)}),
        "fewer than l",
    ),
    "wrong subjects stated": (with_left({3: (CLUSTER._replace(subjects=3),)}), "subjects: stated 3, found 2"),
    "wrong diversity stated": (with_left({3: (CLUSTER._replace(diversity=3),)}), r"diversity: stated \(3,\)"),
    "wrong loss stated": (with_left({3: (CLUSTER._replace(loss=0.31),)}), "loss of 0.31; it is 0.3"),
    "no loss stated": (with_left({3: (CLUSTER._replace(loss=float("nan")),)}), "loss of nan"),
    "a release too early": (with_left({3: (), 2: (CLUSTER,)}), "no tuple that was due"),
    "a split of one part": (with_left({5: (SECOND._replace(kind="split"),)}), "one part only"),
    "a release number left out": (with_left({5: (SECOND._replace(number=2),)}), "release_id"),
    "the event time of another tuple": (with_left({5: (SECOND._replace(event_time=105),)}), "stated 105, found 103"),
    "the event time of an older member": (with_left({5: (SECOND._replace(event_time=102),)}), "stated 102, found 103"),
    "reuse of what was never published": (
        with_left({7: (REUSED._replace(lower=49, loss=0.005),)}),
        "Omega does not hold",
    ),
    "reuse of a loss that Omega does not keep": (
        [
            *with_rows({4: replace(ROWS[4], values=(10, "Rome"))})[:7],
            Moment(GOOD[7].step, (REUSED._replace(lower=10, upper=20, node=ITALY, loss=0.3),)),
        ],
        "Omega does not hold",
    ),
    "reuse with other counts": (with_left({7: (REUSED._replace(subjects=3),)}), "other counts than its own"),
    "reuse that states less than k": (with_left({7: (REUSED._replace(subjects=1),)}), "fewer than k"),
    "reuse that states less than l": (with_left({7: (REUSED._replace(diversity=1),)}), "fewer than l"),
    "reuse outside the generalization": (
        with_rows({4: replace(ROWS[4], values=(51, "Lima"))}),
        "position 4 lies outside",
    ),
    "reuse for several": (
        [
            *with_rows({5: replace(ROWS[5], values=(50, "Lima"))})[:7],
            Moment(GOOD[7].step, (REUSED._replace(members=(4, 5), event_time=105),)),
        ],
        "tuples of a reused generalization",
    ),
    "reuse before its time": (with_left({6: (REUSED,)}), "position 4 left alone before"),
    "suppression before its time": (with_left({}, {9: (LAST,)}), "position 9 left alone before"),
    "suppression at another time": (
        with_left({}, {10: (LAST._replace(event_time=108),)}),
        "event time of a suppressed",
    ),
    "no outlier": (with_left({}, {10: (LAST._replace(reason="outlier"),)}), "outlier, which it cannot be"),
    "no lack of diversity alone": (
        with_left({}, {10: (LAST._replace(reason="too_little_diversity"),)}),
        "too_little_diversity, which it cannot be",
    ),
    "subjects enough": (
        with_left({3: ()}, {3: (Suppressed("too_few_subjects", 0, 100),)}),
        "too_few_subjects, which it cannot be",
    ),
    "diversity enough": (
        with_left({3: ()}, {3: (Suppressed("too_little_diversity", 0, 100),)}),
        "too_little_diversity, which it cannot be",
    ),
    "suppression where reuse was possible": (
        with_left({7: ()}, {7: (Suppressed("outlier", 4, 104),)}),
        "though a published generalization contains it",
    ),
    "a full generalization where the policy withholds": (
        with_left({10: (Release("generalized", (9,), 0, 100, ANY, 1.0, 109, 1, 1),)}, {10: ()}),
        "otherwise than by withhold",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_run_is_refused(how: str) -> None:
    moments, text = BROKEN[how]
    with pytest.raises(Violation, match=text):
        judge(moments)


def test_a_tuple_that_waited_too_long_inside_a_block_is_seen() -> None:
    # By the order of releases: a release after a later tuple's arrival came later.
    late = (CLUSTER, *PARTS, SECOND)
    with pytest.raises(Violation, match="position 2 waited for more tuples"):
        judge([Moment(Push(ROWS), late), GOOD[-1]])


def test_the_end_of_the_input_is_held_to_the_order_of_expiry() -> None:
    first, second = CLUSTER, SECOND
    for releases in ((first, second), (second, first)):
        moments = [Moment(Push(ROWS[:4])), Moment(Finish(), releases)]
        if releases == (first, second):
            judge(moments, delay_tuples=9)
        else:
            with pytest.raises(Violation, match="order of their expiry"):
                judge(moments, delay_tuples=9)


def test_the_last_generalizations_only_are_kept_for_reuse() -> None:
    judge(GOOD[:8], reuse_limit=1)
    with pytest.raises(Violation, match="Omega does not hold"):
        judge(GOOD[:8], reuse_limit=0)


@pytest.mark.parametrize(
    ("watermark", "problem"), [(109, None), (110, "position 0 waits longer"), (120, "position 0 waits longer")]
)
def test_event_time_is_a_bound_as_well(watermark: int, problem: str | None) -> None:
    moments = [Moment(Push(ROWS[:3])), Moment(Advance(watermark))]
    if problem is None:
        judge(moments, delay_event_time=10)
    else:
        with pytest.raises(Violation, match=problem):
            judge(moments, delay_event_time=10)


FULL = Release("generalized", (9,), 0, 100, ANY, 1.0, 109, 1, 1)


@pytest.mark.parametrize(
    ("release", "problem"),
    [
        (FULL, None),
        (FULL._replace(upper=99, loss=0.995), "not fully generalized"),
        (FULL._replace(node=ITALY, loss=0.75), "not fully generalized"),
        (FULL._replace(subjects=2), "what stands behind a full generalization"),
        (FULL._replace(loss=0.9), "loss of 0.9; it is 1.0"),
    ],
)
def test_a_full_generalization_covers_everything(release: Release, problem: str | None) -> None:
    moments = with_left({10: (release,)}, {10: ()})
    if problem is None:
        judge(moments, suppression="generalize").agree(
            replace(
                TOTALS,
                released=10,
                linked=0,
                releases=TOTALS.releases | {"generalized": 1, "again": 0, "widened": 0},
                loss_sum=TOTALS.loss_sum + 1.0,
            )
        )
    else:
        with pytest.raises(Violation, match=problem):
            judge(moments, suppression="generalize")


def test_withholding_is_refused_where_the_policy_generalizes() -> None:
    with pytest.raises(Violation, match="otherwise than by generalize"):
        judge(GOOD, suppression="generalize")


def test_a_full_generalization_needs_a_reason() -> None:
    alone = Release("generalized", (0,), 0, 100, ANY, 1.0, 100, 1, 1)
    with pytest.raises(Violation, match="which it cannot be"):
        judge([*GOOD[:3], Moment(GOOD[3].step, (alone,))], suppression="generalize")


def test_ranges_that_were_observed_are_those_of_the_tuples_so_far() -> None:
    policy = replace(POLICY, quasi_identifiers=(Numeric("age"), Categorical("place", CITIES)))
    for loss, right in ((10 / 40 / 2 + 0.25, True), (10 / 100 / 2 + 0.25, False)):
        checker = Checker(policy, Privacy(2, 2), CastleParameters(3, reuse_limit=1000), KEY)
        for i in range(3):
            checker.observe(Push((ROWS[i],)), written(Moment(Finish()), 0, ROWS))
        moment = Moment(Push((ROWS[3],)), (CLUSTER._replace(loss=loss),))
        if right:
            checker.observe(moment.step, written(moment, 0, ROWS))
        else:
            with pytest.raises(Violation, match=r"loss of 0\.3; it is 0\.375"):
                checker.observe(moment.step, written(moment, 0, ROWS))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda out: replace(out, subjects=np.append(out.subjects, 2)),
        lambda out: replace(out, lower=out.lower[:, :0]),
        lambda out: replace(out, members=out.members[:1]),
        lambda out: replace(out, members=(out.members[0], [*out.members[1], 3])),
        lambda out: replace(out, offsets=out.offsets + 1),
        lambda out: replace(out, tuples=out.tuples + 1),
        lambda out: replace(out, suppressed_position=np.append(out.suppressed_position, 1)),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(spoil: Callable[[Releases], Releases]) -> None:
    with pytest.raises(Violation):
        judge(GOOD, spoil=spoil)


@pytest.mark.parametrize(
    "change",
    [
        {"tuples_in": 11},
        {"released": 10},
        {"suppressed": {"outlier": 1, "too_few_subjects": 0, "too_little_diversity": 0}},
        {"suppressed": {"outlier": 0, "too_few_subjects": 2, "too_little_diversity": 0}},
        {"releases": TOTALS.releases | {"reused": 0}},
        {"merges": -1},
        {"splits": 0},
        {"splits": 2},
        {"loss_sum": 1.0},
        {"open_clusters": 1},
        {"buffered": 1},
        {"tau": 0.14},
        {"oldest_waiting": 1},
        {"longest_delay": 4},
        {"delays": np.bincount([3, 3, 3, 2, 3, 3, 2, 1, 0, 0], minlength=128)},
        {"delays": np.bincount([3, 2, 3, 2, 3, 3, 2, 1, 0], minlength=128)},
    ],
)
def test_counters_that_do_not_agree_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Violation):
        judge(GOOD).agree(replace(TOTALS, **change))


def test_no_event_time_is_none_in_releases() -> None:
    policy = replace(POLICY, event_time=None)
    rows = [replace(row, event_time=NO_TIME) for row in ROWS[:4]]
    for stated, right in ((NO_TIME, True), (0, False)):
        checker = Checker(policy, Privacy(2, 2), CastleParameters(3, reuse_limit=1000), KEY)
        moment = Moment(Push(tuple(rows)), (CLUSTER._replace(event_time=stated),))
        if right:
            checker.observe(moment.step, written(moment, 0, rows))
        else:
            with pytest.raises(Violation, match="event time"):
                checker.observe(moment.step, written(moment, 0, rows))


def test_an_outlier_is_judged_by_the_clusters_as_they_were() -> None:
    # The first tuple is alone in its cluster, and one, two or three of five clusters have more people.
    def observed(sizes: tuple[int, ...], reason: str) -> None:
        checker = Checker(POLICY, Privacy(4, 2), CastleParameters(sum(sizes), reuse_limit=1000), KEY)
        rows = [replace(ROWS[0], subject=who, published=("flu", who), event_time=100) for who in range(1 + sum(sizes))]
        starts = np.cumsum([0, 1, *sizes])
        clusters = [range(start, stop) for start, stop in pairwise(starts)]
        for i, row in enumerate(rows[:-1]):
            gamma = {id: frozenset(held[: max(i + 1 - held[0], 0)]) for id, held in enumerate(clusters)}
            checker.observe(Push((row,)), written(Moment(Push((row,))), 0, rows), gamma)
        gamma = {id: frozenset(held) for id, held in enumerate(clusters) if id > 0}
        last = Moment(Push((rows[-1],)), (), (Suppressed(reason, 0, 100),))
        checker.observe(last.step, written(last, 0, rows), gamma)

    observed((2, 2, 2, 3), "outlier")
    with pytest.raises(Violation, match="0 of 5 clusters were larger"):
        observed((1, 1, 1, 1), "outlier")
    with pytest.raises(Violation, match="2 of 5 clusters were larger"):
        observed((3, 3, 1, 1), "outlier")
    with pytest.raises(Violation):
        observed((2, 2, 2, 3), "too_few_subjects")


FORGETS = [*GOOD[:-1], Moment(Forget(("I", "nobody"))), Moment(Finish())]


def test_whoever_is_forgotten_while_waiting_counts_as_that_and_leaves_nowhere() -> None:
    nobody = dict.fromkeys(TOTALS.suppressed, 0)
    delays = TOTALS.delays.copy()
    delays[0] -= 1
    totals = replace(TOTALS, suppressed=nobody, forgotten=1, delays=delays)
    judge(FORGETS).agree(totals)
    with pytest.raises(Violation, match="forgotten: stated 0, found 1"):
        judge(FORGETS).agree(replace(totals, forgotten=0))
    with pytest.raises(Violation, match="position 9 left, though it does not wait"):
        judge([*FORGETS[:-1], GOOD[-1]])
    with pytest.raises(Violation, match="what leaves where somebody is forgotten"):
        judge([*FORGETS[:-2], Moment(FORGETS[-2].step, (), (LAST,)), FORGETS[-1]])


def test_all_others_wait_where_they_did_when_somebody_is_forgotten() -> None:
    rows = [replace(ROWS[0], subject=who, published=("flu", i), event_time=100) for i, who in enumerate("ABA")]
    step = Forget(("A",))
    for gamma, right in (({1: {1}}, True), ({0: {1}}, False), ({0: {0}, 1: {1}}, False), ({}, False)):
        checker = Checker(POLICY, Privacy(2, 2), CastleParameters(delay_tuples=9), KEY)
        before = {0: frozenset({0, 2}), 1: frozenset({1})}
        checker.observe(Push(tuple(rows)), written(Moment(Push(tuple(rows))), 0, rows), before)
        after = {cluster: frozenset(positions) for cluster, positions in gamma.items()}
        if right:
            checker.observe(step, written(Moment(step), 0, rows), after)
        else:
            with pytest.raises(Violation, match="the clusters of the others"):
                checker.observe(step, written(Moment(step), 0, rows), after)
