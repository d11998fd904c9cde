"""The guarantee of ``cells`` with noisy counts, computed exactly: all noise through the operator, for each person."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.cells.count_noise import CountNoise
from crenel.anonymity.algorithms.cells.shard import CellsShard
from tests.operators import test_noisy_cells
from tests.operators.test_cells import WIDTH, Restart, Universe, Visit
from tests.operators.test_noisy_cells import BOUND, DIVERSE, EPSILON, FAR, HALF, TWICE, TWO_WINDOWS, divergences, plan

clock = test_noisy_cells.clock

REPEATED: Universe = (
    *HALF[:3],
    Visit(0, 650, 640, 70.0),  # a second record of a person
    Restart(4_000),
    Visit(5, 5_000, 5_000, 70.0),
    Visit(6, 18_000, 9_000, 70.0),  # late: its window has closed
)


@pytest.mark.parametrize(("universe", "shards"), [(HALF, 1), (HALF, 2), (REPEATED, 1)], ids=["one", "two", "late"])
def test_one_window_of_each_person(universe: Universe, shards: int) -> None:
    assert 0.9 * BOUND < max(divergences(universe, plan(shards=shards), EPSILON)) <= BOUND + FAR


@pytest.mark.parametrize("universe", [TWO_WINDOWS, TWICE], ids=["windows", "twice"])
def test_a_person_of_one_publication_among_two(universe: Universe) -> None:
    assert 0 < max(divergences(universe, plan(windows=2), EPSILON, persons=(0, 3))) <= BOUND + FAR


def test_two_windows_of_each_person_compose() -> None:
    both = tuple(
        Visit(person, WIDTH * window + 100 * person, WIDTH * window + 100 * person, 20.0)
        for window in range(2)
        for person in range(2)
    )
    assert 0 < max(divergences(both, plan(windows=2), 2 * EPSILON)) <= 2 * (BOUND + FAR)


class TrueDiversity(CellsShard):
    """Publishes a cell where its persons, and not its published records, have two values."""

    def _chosen(self, leaving: NDArray[np.int64], *others: NDArray[np.int64]) -> Choice:
        chosen = super()._chosen(leaving, *others)
        assert chosen.published is not None
        cells = self._settings.regions.regions(self.waiting.numeric, self.waiting.categorical)
        values = [np.unique(self.waiting.sensitive[leaving][cells[leaving] == cells[g[0]]]) for g in chosen.groups]
        kept = np.array([len(of) > 1 for of in values], np.bool_)
        lost = [np.unique(group) for group, stays in zip(chosen.groups, kept.tolist(), strict=True) if not stays]
        rows = [np.column_stack((group, np.ones(len(group), np.int64))) for group in lost]
        return Choice(
            groups=[chosen.groups[i] for i in np.flatnonzero(kept).tolist()],
            suppressed=np.concatenate([np.asarray(chosen.suppressed).reshape(-1, 2), *rows]),
            published=type(chosen.published)(*(column[kept] for column in chosen.published)),
        )


class Lower(CellsShard):
    """Has a threshold that is one too low."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._threshold -= 1


class Halved(CellsShard):
    """Adds half of the noise that the guarantee needs."""

    def _chosen(self, *given: NDArray[np.int64]) -> Choice:
        noise = self._noise_of_counts
        assert noise is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CountNoise, "drawn", lambda _, keys, drawn=CountNoise.drawn: drawn(noise, keys) // 2)
            return super()._chosen(*given)


@pytest.mark.parametrize(
    ("broken", "universe"),
    [(TrueDiversity, DIVERSE), (Lower, HALF), (Halved, HALF)],
)
def test_each_broken_rule_breaks_the_guarantee(
    broken: type[CellsShard], universe: Universe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crenel.anonymity.algorithms.cells.algorithm.CellsShard", broken)
    # The guarantee fails if it fails for one person.
    assert any(found > 1.5 * BOUND for found in divergences(universe, plan(), EPSILON))
