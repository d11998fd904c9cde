"""Losses of a generalization, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crenel.anonymity.algorithms.ola import lattice
from crenel.anonymity.model.hierarchy import from_paths


def test_precision_is_the_mean_height() -> None:
    assert lattice.precision((1, 0), (3, 2)) == 0.25
    assert lattice.precision((2, 1), (3, 2)) == 1
    assert lattice.precision((0,), (1,)) == 0


def test_discernibility_counts_with_whom_each_tuple_is() -> None:
    assert lattice.discernibility(np.array([3, 2])) == 13
    assert lattice.discernibility(np.array([1, 1, 1])) == 3


def test_entropy_is_what_is_uncertain_of_each_value() -> None:
    tree = from_paths([("a", "ab", "*"), ("b", "ab", "*"), ("c", "c-", "*")])
    leaf = np.array([0, 0, 0, 1, 2, 2, 2, 2], np.int32)[:, None]
    (bits,) = lattice.entropies(leaf, [tree.level_nodes()])
    assert bits[0] == 0
    assert bits[1] == pytest.approx(3 * np.log2(4 / 3) + np.log2(4))
    assert bits[2] == pytest.approx(3 * np.log2(8 / 3) + np.log2(8) + 4 * np.log2(2))
