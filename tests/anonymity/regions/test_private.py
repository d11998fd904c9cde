"""Private learning of a partition: what one record changes, and what the result tells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.regions.loss import EncodedSample
from crenel.anonymity.regions.private import _PrivateLearner, learn_privately
from crenel.anonymity.space.sides import full_side

TREE = from_paths([("a", "ab", "*"), ("b", "ab", "*"), ("c", "cd", "*"), ("d", "cd", "*")])
POLICY = Policy({"age": Numeric((0, 20), 1), "weight": Numeric((0, 1)), "group": Categorical(TREE)})
WHOLE = [full_side(attribute) for attribute in POLICY.coded]
PART = [(0.0, 9.0), (0.0, 0.25), (0.0, 1.0)]
"""A part with a loss below 1, so that suppression counts in its scores."""

record = st.tuples(st.integers(0, 9), st.floats(0, 0.25), st.integers(0, 1))


class Scores:
    """Stands for the noise: collects the scores of the choice."""

    def __init__(self) -> None:
        self.size = 0

    def exponential(self, size: int) -> NDArray[np.float64]:
        return np.zeros(size)


def scores(
    records: list[tuple[float, ...]], sides: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> NDArray[np.float64]:
    """Return epsilon times utility over twice the sensitivity, of each choice in a part; epsilon is 1."""
    found = []
    monkeypatch.setattr(np, "argmax", lambda score: found.append(score) or 0)
    values = np.array(records, np.float64).reshape(-1, 3)
    learner = _PrivateLearner(POLICY, values, 5.0, 1.0, Scores())  # type: ignore[arg-type]
    learner._chosen(np.arange(len(values)), sides)
    monkeypatch.undo()
    return found[0]


def probabilities(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that a choice has the largest score with exponential noise; the rule is exact here."""
    points, weights = np.polynomial.legendre.leggauss(len(score) // 2 + 1)
    u, share = (points + 1) / 2, np.exp(score - score.max())
    others = 1 - share[:, None] * u
    each = [share[i] * (weights / 2) @ np.delete(others, i, axis=0).prod(axis=0) for i in range(len(score))]
    assert sum(each) == pytest.approx(1)
    return np.array(each)


@given(st.lists(record, max_size=12), record, st.sampled_from([WHOLE, PART]))
def test_one_record_changes_each_score_by_half_of_epsilon_at_most(
    records: list[tuple[float, ...]], another: tuple[float, ...], sides: list[tuple[float, float]]
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        before, after = scores(records, sides, monkeypatch), scores([*records, another], sides, monkeypatch)
    assert np.abs(after - before).max() <= 0.5 + 1e-9
    # With exponential noise, the probability of each choice changes by a factor of e at most.
    change = np.log(probabilities(after)) - np.log(probabilities(before))
    assert np.abs(change).max() <= 1 + 1e-9


def test_with_much_epsilon_the_cuts_follow_the_data() -> None:
    random = np.random.default_rng(1)
    numeric = np.stack((random.integers(0, 4, 400), random.random(400)), axis=1)
    sample = EncodedSample(numeric.astype(np.float64), random.integers(0, 2, (400, 1)).astype(np.int32))
    tree = learn_privately(POLICY, sample, 8, 5, 1e9, random)
    cells = tree.regions(sample.numeric, sample.categorical)
    cuts = {(int(a), float(c)) for a, c in zip(tree.attribute, tree.cut, strict=True)}
    # Two cuts remove space without records, which costs nothing; the third halves the records.
    assert cuts >= {(0, 5.0), (2, 2.0), (1, 0.5)}
    assert len(np.unique(cells)) == 2 < len(tree) <= 8
    assert (np.diff(cells[np.argsort(numeric[:, 1])]) != 0).sum() == 1


def test_shares_and_losses_do_not_tell_the_data() -> None:
    nothing = EncodedSample(np.zeros((0, 2)), np.zeros((0, 1), np.int32))
    tree = learn_privately(POLICY, nothing, 4, 5, 0.5, np.random.default_rng(2))
    assert tree.epsilon == 0.5
    assert tree.share.tolist() == [1 / len(tree)] * len(tree)
    whole = learn_privately(POLICY, nothing, 1, 5, 0.5)
    assert (len(whole), whole.loss.tolist()) == (1, [1.0])
