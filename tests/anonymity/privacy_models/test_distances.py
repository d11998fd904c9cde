"""Distances to a reference, against the cheapest way to move one distribution onto the other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.reference import Distance, Reference
from crenel.anonymity.privacy_models.distances import distance, table_of
from tests.support.example_counts import LAWS
from tests.support.sensitive import Ground, apart, ground_of, picks
from tests.support.sensitive import distance as judged

TREE = from_paths(["ampz", "bmpz", "cnpz", "doqz", "eoqz", "fffz"])
"""f stands alone up to the root."""

values = "abcdef"
references = st.builds(
    lambda order, parts, kind: Reference(
        tuple(order[: len(parts)]),
        tuple(part / sum(parts) for part in parts),
        distance=kind,
        hierarchy=TREE if kind == "hierarchical" else None,
    ),
    st.permutations(values),
    st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
    st.sampled_from(("equal", "ordered", "hierarchical")),
)


def distance_of(rows: set[tuple[int, str]], reference: Reference) -> float:
    counts = Counter(value for _, value in rows)
    place = {value: i for i, value in enumerate(reference.values)}
    held = sorted(counts, key=lambda value: place.get(value, -1))
    return distance(
        len({who for who, _ in rows}),
        np.array([counts[value] for value in held], np.int64),
        np.array([place.get(value, -1) for value in held], np.int64),
        np.array(table_of(reference)),
    )


@given(references, st.lists(st.tuples(st.integers(0, 2), st.sampled_from(values)), min_size=1, max_size=7))
@LAWS
def test_it_is_what_must_be_moved_and_no_pick_of_values_is_farther(
    reference: Reference, drawn: list[tuple[int, str]]
) -> None:
    rows, shares, ground = set(drawn), dict(zip(reference.values, reference.shares, strict=True)), ground_of(reference)
    found = distance_of(rows, reference)
    farthest = max(judged(pick, shares, ground) for pick in picks(rows))
    assert farthest - 1e-9 <= found <= 1 + 1e-9
    known = {value for _, value in rows} <= set(shares) or reference.distance == "equal"
    if known and len({who for who, _ in rows}) == len(rows):
        assert found == pytest.approx(farthest, abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "release", "far"),
    [
        # Li, Li and Venkatasubramanian, Section 5.1: of nine salaries, 3k to 11k, two releases.
        ("ordered", "345", 0.375),
        ("ordered", "68b", 1 / 6),
        ("equal", "345", 2 / 3),
    ],
)
def test_the_examples_of_the_paper(kind: Distance, release: str, far: float) -> None:
    salaries = Reference(tuple("3456789ab"), (1 / 9,) * 9, distance=kind)
    assert distance_of(set(enumerate(release)), salaries) == pytest.approx(far)


def test_values_of_a_hierarchy_are_as_far_as_the_level_where_they_meet() -> None:
    for one, other, level in (("a", "b", 1), ("a", "c", 2), ("a", "d", 3), ("f", "a", 3), ("d", "e", 1), ("b", "b", 0)):
        single = Reference((other,), (1.0,), distance="hierarchical", hierarchy=TREE)
        both = Reference((one, other), (0.0, 1.0), distance="hierarchical", hierarchy=TREE)
        if one != other:
            assert distance_of({(1, one)}, both) == pytest.approx(level / 3)
            assert distance_of({(1, one)}, single) == 1.0
        else:
            assert distance_of({(1, one)}, single) == pytest.approx(0.0)


@pytest.mark.parametrize("kind", ["equal", "ordered", "hierarchical"])
@pytest.mark.parametrize("usual", [0.0, 0.25, 1.0])
def test_who_has_several_values_is_as_far_as_the_farther_of_them(kind: Distance, usual: float) -> None:
    tree = TREE if kind == "hierarchical" else None
    reference = Reference(("a", "f"), (usual, 1 - usual), distance=kind, hierarchy=tree)
    assert distance_of({(1, "a"), (1, "f")}, reference) == pytest.approx(max(usual, 1 - usual))
    assert distance_of({(1, "a"), (1, "f"), (2, "a")}, reference) == pytest.approx(max(1 - usual, abs(usual - 0.5)))


def test_the_judge_moves_to_the_nearest() -> None:
    ground: Ground = ground_of(Reference(("a", "b", "c"), (0.5, 0.25, 0.25), distance="ordered"))
    assert judged({"a": 2, "b": 1, "c": 1}, {"a": 0.5, "b": 0.25, "c": 0.25}, ground) == pytest.approx(0)
    assert judged({"c": 3}, {"a": 0.5, "b": 0.25, "c": 0.25}, ground) == pytest.approx(0.625)
    assert judged({"c": 3}, {"a": 0.5, "b": 0.25, "c": 0.25}, apart) == pytest.approx(0.75)
