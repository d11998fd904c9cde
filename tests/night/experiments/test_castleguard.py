"""Computations of the experiments of CASTLEGUARD; other tests cover the measured code."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from experiments.castleguard import fares
from experiments.castleguard.loss import Run, lower_bounds, run
from experiments.castleguard.quality import agreement, published, raw, split
from experiments.harness import PIMA, numeric_stream


def women(count: int) -> pd.DataFrame:
    """Rows as in Pima, on the grid of each column, a third of them with outcome 1; ``number`` tells them apart."""
    chance = np.random.default_rng(1)
    rows = {a.name: np.round(chance.uniform(*a.domain, count) / a.step) * a.step for a in PIMA if a.domain and a.step}
    return pd.DataFrame({**rows, "outcome": (np.arange(count) % 3 == 0).astype(int), "number": np.arange(count)})


def released(rows: pd.DataFrame) -> Run:
    """Released with k = 5 and without noise, the number published."""
    return run(numeric_stream(rows, PIMA, "number"), Privacy(5), Castle(Delay(50), max_clusters=10), None, 0)


def test_each_published_row_has_the_intervals_of_its_release() -> None:
    rows = women(400)
    found = published(released(rows).releases)
    values = rows[[a.name for a in PIMA]].to_numpy()[found.labels]
    lower, upper = np.hsplit(found.features, 2)
    assert len(np.unique(found.labels)) == len(found.labels) > 350
    assert np.all((lower <= values) & (values <= upper))
    assert np.all((lower < upper).any(axis=1))


def test_losses_are_averaged_over_tuples_and_over_releases() -> None:
    found = released(women(400))
    loss = np.concatenate([r.loss for r in found.releases])
    tuples = np.concatenate([r.tuples for r in found.releases])
    assert found.per_release == pytest.approx(loss.mean())
    assert found.released == pytest.approx(np.average(loss, weights=tuples))
    assert found.suppressed == pytest.approx(1 - tuples.sum() / 400)


def test_the_loss_of_open_clusters_is_that_of_their_intervals() -> None:
    # Nothing is due before the input ends, and one cluster holds everything.
    rows = pd.DataFrame({"x": [0.0, 1.0, 4.0], "y": [2.0, 2.0, 3.0], "v": [1, 2, 3]})
    attributes = (Numeric((0, 10), 1).named("x"), Numeric((0, 10), 1).named("y"))
    found = run(numeric_stream(rows, attributes, "v"), Privacy(1), Castle(Delay(50), max_clusters=1), None, 0)
    assert found.still_open == pytest.approx((0.4 + 0.1) / 2)


def test_people_are_counted_and_not_their_trips() -> None:
    rows = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "who": ["a", "a", "a", "b"], "v": [1, 2, 3, 4]})
    tuples = numeric_stream(rows, (Numeric((0, 10), 1).named("x"),), "v", "who")
    (found,) = [r for r in run(tuples, Privacy(2), Castle(Delay(50)), None, 0).releases if len(r)]
    assert found.subjects.tolist() == [2]


def test_raw_rows_have_equal_ends() -> None:
    rows = women(10)
    lower, upper = np.hsplit(raw(rows).features, 2)
    assert lower.tolist() == upper.tolist() == rows[[a.name for a in PIMA]].to_numpy().tolist()
    assert raw(rows).labels.tolist() == rows["outcome"].tolist()


def test_a_split_keeps_the_share_of_each_label() -> None:
    rows = women(300)
    train, test = split(rows, 1)
    assert sorted([*train["number"], *test["number"]]) == list(range(300))
    assert (len(test), test["outcome"].sum()) == (90, 30)
    assert train["number"].tolist() != sorted(train["number"])
    assert set(test["number"]) != set(split(rows, 2)[1]["number"])


def test_the_least_loss_is_that_of_the_nearest_other_subjects() -> None:
    points = np.array([[0.0, 0.0], [0.0, 0.0], [0.2, 0.0], [0.4, 0.4], [0.0, 1.0]])
    subjects = np.array([1, 1, 2, 3, 4])
    # The first two are one person.
    assert lower_bounds(points, subjects, 2).tolist() == pytest.approx([0.1, 0.1, 0.1, 0.3, 0.5])
    assert lower_bounds(points, subjects, 1).tolist() == [0.0] * 5
    # With a reach of 1 only neighbors count, and the first tuple has no other person.
    assert lower_bounds(points, subjects, 2, reach=1).tolist() == pytest.approx([np.inf, 0.1, 0.1, 0.3, 0.5])


def test_no_release_loses_less_than_the_least() -> None:
    rows = women(400)
    points = np.stack([rows[a.name] / (a.domain[1] - a.domain[0]) for a in PIMA if a.domain], axis=1)
    found = released(rows)
    least = lower_bounds(points, np.arange(400), 5).mean()
    assert found.suppressed < 0.1
    assert 0.1 < least < found.released


def test_fares_are_published_with_noise_of_their_own_epsilon() -> None:
    chance = np.random.default_rng(1)
    trips = pd.DataFrame(
        {"PickupLocationID": chance.integers(1, 266, 800), "TripDistance": chance.integers(0, 50, 800)}
    )
    # Fares of a class are alike, so noise by the release would be small.
    tuples = fares.noised(trips.assign(FareAmount=2 * trips["TripDistance"], pid=np.arange(800) % 100))
    loss, near, original = fares.published(tuples, 500.0, 0)
    _, far, others = fares.published(tuples, 1.0, 0)
    assert 300 < len(original) < 500  # half of the trips are sampled
    assert 0 < np.abs(near - original).mean() < 1 < 20 < np.abs(far - others).mean()
    assert 0.05 < loss < 0.4


def test_agreement_compares_by_position() -> None:
    assert agreement(np.array([1, 0, 1]), np.array([1, 1, 1, 0, 0])) == pytest.approx(2 / 3)
