"""Suppression for too small linking crowds: judged by published values, in known classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.outcomes import LINKABLE
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease
from tests.anonymity.noise.test_release_noise import HEIGHT, WEIGHT, Stream, classes, linking_range_of, run, terms
from tests.support.example_counts import FEW

K, SIZE = 4, 60
HALVES = replace(WEIGHT, step=0.5)  # heights that are one apart have weights that are one step apart

# No value is ever moved: by the scales in steps. That of the second is 1 / 25, so that one in 10^11 is, and at such a
# confidence the linking range is one step.
QUIET = {
    0: (NoiseWithinRelease(2.0**40, least=0.0), 0.9),
    1: (NoiseWithinRelease(14_180.0, {"height": 120 / 560, "weight": 440 / 560}, scale="domain"), 1 - 1e-12),
}

# All have the same x, so a window is one class; few heights, which several persons have, and one person several times.
streams = st.lists(
    st.tuples(st.just(0), st.integers(0, 12), st.sampled_from((110, 111, 130, 160, 161, 163, 200))), max_size=120
)


def outcome(
    stream: Stream, noise: NoiseWithinRelease, *, by_name: bool
) -> tuple[list[range], dict[int, tuple[float, float]]]:
    """Windows that have enough subjects, and what is published of each row that was released."""
    of = terms(Mondrian, noise, HEIGHT, HALVES, k=K)
    of = replace(of, algorithm=Mondrian(Window(SIZE)))
    of = of if by_name else replace(of, policy=replace(of.policy, subject=None))
    outputs, shard = run(Mondrian, of, stream, 7)
    windows = [range(i, min(i + SIZE, len(stream))) for i in range(0, len(stream), SIZE)]
    large = [rows for rows in windows if len({subject(stream, row, by_name=by_name) for row in rows}) >= K]
    shown = {
        row: (height, weight)
        for rows, columns in classes(outputs)
        for row, height, weight in zip(rows, *columns, strict=True)
    }
    assert shard.counters.suppressed[LINKABLE] == sum(map(len, large)) - len(shown)
    assert shard.counters.tuples_in == len(shown) + sum(shard.counters.suppressed.values()) == len(stream)
    return large, shown


def subject(stream: Stream, row: int, *, by_name: bool) -> int:
    return stream[row][1] if by_name else row


@given(streams, st.sampled_from((0, 1)), st.integers(2, K), st.booleans())
@FEW
def test_where_nothing_is_moved_those_leave_near_whom_enough_subjects_are(
    stream: Stream, reach: int, least: int, by_name: bool
) -> None:
    noise, c = QUIET[reach]
    noise = replace(noise, confidence=Confidence(c, least))
    windows, shown = outcome(stream, noise, by_name=by_name)
    expected = set()
    for rows in windows:
        of = {
            height: {subject(stream, r, by_name=by_name) for r in rows if abs(stream[r][2] - height) <= reach}
            for height in range(220)
        }
        stay = {row for row in rows if len(of[stream[row][2]]) >= least}
        if len({subject(stream, row, by_name=by_name) for row in stay}) >= K:
            expected |= stay
    assert shown == {row: (stream[row][2], stream[row][2] / 2 + 30) for row in expected}


@given(streams, st.floats(0.5, 50.0), st.sampled_from((0.3, 0.9)), st.integers(2, K), st.booleans())
@FEW
def test_whoever_leaves_has_nobody_or_enough_subjects_within_the_linking_range(
    stream: Stream, epsilon: float, c: float, least: int, by_name: bool
) -> None:
    noise = NoiseWithinRelease(epsilon, least=0.0, confidence=Confidence(c, least))
    windows, shown = outcome(stream, noise, by_name=by_name)
    for rows in windows:
        heights = [stream[row][2] for row in rows]
        width = max(heights) - min(heights)
        steps = (1.0, width), (0.5, width / 2)
        reach = [step * linking_range_of(2 * of / epsilon / step, 1 - c**0.5) + 1e-6 for step, of in steps]
        for row in shown.keys() & set(rows):
            height, weight = shown[row]
            inside = {
                subject(stream, other, by_name=by_name)
                for other in shown.keys() & set(rows)
                if abs(stream[other][2] - height) <= reach[0] and abs(stream[other][2] / 2 + 30 - weight) <= reach[1]
            }
            assert not 0 < len(inside) < least


@pytest.mark.parametrize(
    ("k", "least", "c", "epsilon"), [(5, 5, 0.9, 20.0), (5, 5, 0.5, 20.0), (8, 4, 0.7, 40.0)], ids=str
)
def test_a_suppressed_member_neither_hides_a_published_one_nor_counts_as_nearest(
    k: int, least: int, c: float, epsilon: float
) -> None:
    chance = np.random.default_rng(k)
    heights = np.clip(np.rint(chance.normal(150, 20, 400)), 100, 220).astype(int).tolist()
    stream = [
        (int(x), i, height) for i, (x, height) in enumerate(zip(chance.integers(0, 100, 400), heights, strict=True))
    ]
    # scale: domain, so that the linking range is known from outside.
    noise = NoiseWithinRelease(2 * epsilon, scale="domain", confidence=Confidence(c, least))
    of = terms(Nearest, noise, HEIGHT, WEIGHT, k=k)
    outputs, shard = run(Nearest, of, stream, 7)
    tall, heavy = (linking_range_of(width / epsilon / step, 1 - c**0.5) for width, step in ((120, 1.0), (220, 0.1)))
    lonely = linked = 0
    for rows, shown in classes(outputs):
        assert len(rows) >= k
        for row, height, weight in zip(rows, *shown, strict=True):
            apart = {other: (abs(stream[other][2] - height), abs(stream[other][2] / 2 + 30 - weight)) for other in rows}
            lonely += 0 < sum(h <= tall + 1e-6 and w <= 0.1 * heavy + 1e-6 for h, w in apart.values()) < least
            distance = {other: h / 120 + w / 220 for other, (h, w) in apart.items()}
            linked += distance[row] <= min(distance.values()) + 1e-12
    assert shard.counters.suppressed[LINKABLE] > 0
    assert (lonely, shard.counters.linked) == (0, linked)
