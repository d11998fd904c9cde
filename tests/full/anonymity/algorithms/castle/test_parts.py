"""The search of CASTLE's split on any points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.algorithms.castle.distance_search import arrange, find_nearest, take
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.space.domain import Boxes, Domain, domain
from tests.anonymity.algorithms.castle.test_parts import POLICY, Search, growth, searches
from tests.support.example_counts import examples


@entry
def found_nearest(
    of: Domain,
    box: Boxes,
    seed: Boxes,
    ends: NDArray[np.int64],
    taken: NDArray[np.int64],
    bucket: int,
    wanted: int,
    near: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nearest groups of a bucket, and their distances, once some groups were taken."""
    left = arrange(of, box, np.arange(len(box.lower)), ends)
    for group in taken:
        take(left, group)
    found = find_nearest(of, seed, left, bucket, wanted, near, np.inf)
    return found.item, found.distance


@given(searches(), st.sampled_from((0, 1, 2, 9, 100, 3000)), st.data())
@settings(max_examples=examples(100))
def test_the_nearest_are_those_left_that_enlarge_the_seed_least(
    search: Search, wanted: int, data: st.DataObject
) -> None:
    near = data.draw(st.integers(0, len(search.box.lower) - 1))
    found, distance = found_nearest(
        domain(POLICY), search.box, search.seed, search.ends, search.taken, search.bucket, wanted, near
    )
    of = {group: growth(search.seed, 0, search.box, group) for group in search.left}
    assert len(set(found.tolist())) == len(found) == min(wanted, len(of))
    assert sorted(of[group] for group in found.tolist()) == pytest.approx(sorted(of.values())[: len(found)], abs=1e-12)
    assert distance.tolist() == pytest.approx([of[group] for group in found.tolist()], abs=1e-12)
