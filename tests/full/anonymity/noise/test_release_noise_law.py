"""A million draws of noise within releases, for classes of each width, against the exact law."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.model.attributes import Noised, Numeric, by_name
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import NoiseWithinRelease, Privacy
from crenel.state.block import Block
from tests.anonymity.noise.test_perturb import UNLIKELY, clamped
from tests.support.drive import KEY, PRINT

DRAWS, CLASS = 1_000_000, 500
CELL = 0.03
"""Least probability of a cell; of less, a scale that is 2 % too large would not be noticed."""

# The ends of the second domain do not lie on its grid.
HEIGHT, WEIGHT = Noised((100.0, 220.0), 1.0).named("height"), Noised((30.2, 90.3), 0.5).named("weight")
NOISE = NoiseWithinRelease(6.0, {"height": 1 / 3, "weight": 2 / 3}, least=0.02)
POLICY = Policy({"x": Numeric((0.0, 1.0))}, noised=by_name((HEIGHT, WEIGHT)), passthrough=("row",))
TERMS = ShardContext(
    POLICY,
    Privacy(CLASS, noise_within_release=NOISE),
    Mondrian(Window(CLASS)),
    pa.schema([("height", pa.int64()), ("weight", pa.float64()), ("row", pa.int64())]),
    fingerprint=PRINT,
)


def block(first: int, height: NDArray[np.float64], weight: NDArray[np.float64]) -> Block:
    count = len(height)
    return Block(
        shard=0,
        numeric=np.zeros((count, 1)),
        categorical=np.zeros((count, 0), np.int32),
        subject=None,
        sensitive=np.zeros((count, 0), np.uint64),
        event_time=np.full(count, np.iinfo(np.int64).min),
        members=pa.record_batch(
            [pa.array(height.astype(np.int64)), pa.array(weight), pa.array(np.arange(first, first + count))],
            schema=TERMS.members,
        ),
    )


@pytest.mark.parametrize(
    ("tall", "heavy"),
    [
        ((160, 160, 160), (30.2, 45.5, 90.3)),
        ((154, 160, 166), (60.0, 60.0, 60.0)),
        ((100, 160, 220), (33.0, 36.0, 40.0)),
    ],
    ids=["none and whole", "small and none", "whole and small"],
)
def test_a_million_draws_follow_the_law_of_the_width_of_their_class(
    tall: tuple[float, ...], heavy: tuple[float, ...]
) -> None:
    # Nothing tells the tuples of a window apart: each is one class, of three values that take turns.
    values = [np.resize(np.array(column, np.float64), CLASS) for column in (tall, heavy)]
    shard, step = Mondrian.new(TERMS, 0, KEY), 20 * CLASS
    columns = [np.tile(column, 20) for column in values]
    original: list[list[float]] = [[], []]
    published: list[list[float]] = [[], []]
    for first in range(0, DRAWS, step):
        out = shard.push(block(first, *columns)).releases
        assert (out.tuples == CLASS).all()
        rows = np.array(out.members[-1]) - first
        for a in range(2):
            original[a].extend(columns[a][rows].tolist())
            published[a].extend(out.members[a])
    for a, (attribute, epsilon) in enumerate(zip(POLICY.noised.values(), NOISE.of(list(POLICY.noised)), strict=True)):
        assert len(published[a]) == DRAWS
        check_law(attribute, epsilon, np.array(original[a]), np.array(published[a]))


def check_law(attribute: Noised, epsilon: float, original: NDArray[np.float64], published: NDArray[np.float64]) -> None:
    """Chi-square over cells of neighboring steps, summed over the original values."""
    assert attribute.domain is not None
    assert attribute.step is not None
    lowest, highest, step = (Fraction(str(number)) for number in (*attribute.domain, attribute.step))
    first, last = -(-lowest // step), highest // step
    width = max(original.max() - original.min(), NOISE.least * float(highest - lowest))
    steps = np.rint(published / attribute.step).astype(np.int64)
    assert (steps * attribute.step == published).all()
    assert first <= steps.min() < steps.max() <= last
    statistic, freedom = 0.0, 0
    for value in np.unique(original):
        seen = np.bincount(steps[original == value] - first, minlength=last - first + 1)
        position = min(max(round(Fraction(str(value)) / step), first), last) - first
        law = clamped(width / epsilon / attribute.step, position, last - first)
        below = np.cumsum(law)
        cells = np.unique(np.minimum(below // CELL, 1 // CELL - 1), return_inverse=True)[1]
        wanted = np.bincount(cells, law) / below[-1] * seen.sum()
        statistic += float(((np.bincount(cells, seen) - wanted) ** 2 / wanted).sum())
        freedom += len(wanted) - 1
    assert stats.chi2.sf(statistic, freedom) > UNLIKELY
