"""Parts of splits, each on its own: the nearest of many, the nearest part, shares of buckets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.castle.distance_search import arrange, assign_remaining, pick, take
from crenel.anonymity.algorithms.castle.split_l import shares
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import Boxes, Domain, domain
from tests.support.drive import Setting
from tests.support.example_counts import examples

TREE = from_paths([(f"leaf {i}", f"twig {i // 3}", f"branch {i // 9}", "*") for i in range(27)])
POLICY = Policy({"x": Numeric((0, 1000)), "place": Categorical(TREE), "y": Numeric((-1, 1))})
SETTING = Setting(POLICY, Privacy(1), Castle(Delay(0)), ())


@entry
def picked(
    of: Domain, box: Boxes, ends: NDArray[np.int64], taken: NDArray[np.int64], bucket: int, count: int
) -> NDArray[np.int64]:
    """Return all groups left of a bucket, by their numbers."""
    left = arrange(of, box, np.arange(len(box.lower)), ends)
    for group in taken:
        take(left, group)
    found = np.empty(count, np.int64)
    for number in range(count):
        found[number] = pick(left, bucket, number)
    return found


@entry
def joined(of: Domain, parts: Boxes, count: int, box: Boxes, part: NDArray[np.int64]) -> None:
    assign_remaining(of, parts, count, box, part, np.arange(len(part))[::-1].copy())


@entry
def shares_of(size: NDArray[np.int64], seeded: int, k: int, l: int) -> NDArray[np.int64]:  # noqa: E741
    return shares(size, seeded, k, l)


def loss(box: Boxes, row: int) -> float:
    widths = (box.upper[row] - box.lower[row]) / (1000, 2)
    return float((widths.sum() + TREE.loss[box.node[row, 0]]) / 3)


def growth(boxes: Boxes, row: int, others: Boxes, at: int) -> float:
    """By how much InfoLoss grows when a box encloses another (CASTLE, Definition 3.4)."""
    first = min(TREE.first[boxes.node[row, 0]], TREE.first[others.node[at, 0]])
    last = max(TREE.last[boxes.node[row, 0]], TREE.last[others.node[at, 0]])
    both = Boxes(
        np.minimum(boxes.lower[[row]], others.lower[[at]]),
        np.maximum(boxes.upper[[row]], others.upper[[at]]),
        np.array([[TREE.lowest_common_ancestor(first, last)]]),
    )
    return loss(both, 0) - loss(boxes, row)


def grown(boxes: Boxes, row: int, others: Boxes, at: int) -> None:
    """Let a box enclose another."""
    first = min(TREE.first[boxes.node[row, 0]], TREE.first[others.node[at, 0]])
    last = max(TREE.last[boxes.node[row, 0]], TREE.last[others.node[at, 0]])
    boxes.lower[row], boxes.upper[row] = (
        np.minimum(boxes.lower[row], others.lower[at]),
        np.maximum(boxes.upper[row], others.upper[at]),
    )
    boxes.node[row, 0] = TREE.lowest_common_ancestor(first, last)


def random_boxes(chance: np.random.Generator, count: int, wide: bool) -> Boxes:
    """Boxes, or points, some of them alike."""
    size = (count, 2)
    scale = (1000 / 20, 2 / 8)
    ends = [chance.integers((0, 0), (21, 9), size) * scale + (0, -1) for _ in range(2)]
    nodes = chance.integers(0, len(TREE.labels) if wide else TREE.leaves, (count, 1)).astype(np.int32)
    return Boxes(np.minimum(*ends), np.maximum(*ends), nodes) if wide else Boxes(ends[0], ends[0].copy(), nodes)


@dataclass(frozen=True)
class Search:
    """Points in buckets, of which some are taken, and a seed."""

    box: Boxes
    seed: Boxes
    ends: NDArray[np.int64]
    taken: NDArray[np.int64]
    bucket: int

    @property
    def left(self) -> list[int]:
        """Remaining groups of the bucket."""
        taken = set(self.taken.tolist())
        return [group for group in range(*self.ends[self.bucket : self.bucket + 2]) if group not in taken]


@st.composite
def searches(draw: st.DrawFn) -> Search:
    """Few groups and many: more than 192 of a bucket lie in regions."""
    sizes = draw(st.lists(st.sampled_from((1, 2, 7, 40, 191, 192, 193, 400, 1500)), min_size=1, max_size=3))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    total = sum(sizes)
    part = draw(st.sampled_from((0.0, 0.3, 0.9, 1.0)))
    return Search(
        random_boxes(chance, total, wide=False),
        random_boxes(chance, 1, draw(st.booleans())),
        np.cumsum([0, *sizes]),
        chance.permutation(total)[: int(part * total)],
        draw(st.integers(0, len(sizes) - 1)),
    )


@given(searches())
@settings(max_examples=examples(50))
def test_what_is_left_has_a_number_each(search: Search) -> None:
    left = search.left
    found = picked(domain(POLICY), search.box, search.ends, search.taken, search.bucket, len(left))
    assert sorted(found.tolist()) == left


@given(st.sampled_from((1, 2, 10, 31, 32, 33, 64, 100)), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=examples(100))
def test_what_is_left_over_goes_to_the_part_that_it_enlarges_least(count: int, wide: bool, seed: int) -> None:
    chance = np.random.default_rng(seed)
    groups, parts = random_boxes(chance, 5, wide), random_boxes(chance, count, True)
    # Behind the last part stands what is not to be read: a part that is not made yet.
    room = Boxes(*(np.concatenate([ends, others]) for ends, others in zip(parts, groups, strict=True)))
    chosen = np.full(5, -1)
    joined(domain(POLICY), room, count, groups, chosen)
    for group in reversed(range(5)):  # in the order in which they join: each part has grown by those before
        growths = [growth(parts, part, groups, group) for part in range(count)]
        assert growths[chosen[group]] == pytest.approx(min(growths), abs=1e-12)
        grown(parts, int(chosen[group]), groups, group)
    assert all((ends[:count] == others).all() for ends, others in zip(room, parts, strict=True))


@st.composite
def buckets(draw: st.DrawFn) -> tuple[list[int], int, int, int]:
    """Sizes of buckets of which a part can be made, the seed's bucket, k and l."""
    size = draw(st.lists(st.integers(0, 12), min_size=1, max_size=8).filter(any))
    l = draw(st.integers(1, sum(found > 0 for found in size)))  # noqa: E741
    k = draw(st.integers(l, sum(size)))
    seeded = draw(st.sampled_from([i for i, found in enumerate(size) if found]))
    return size, seeded, k, l


@given(buckets())
@settings(max_examples=examples(300))
def test_shares_follow_the_sizes_of_buckets_and_leave_enough_to_reach_l(
    made: tuple[list[int], int, int, int],
) -> None:
    size, seeded, k, l = made  # noqa: E741
    given_out = shares_of(np.array(size), seeded, k, l).tolist()
    exact = [k * found // sum(size) for found in size]  # split_l, step 14
    exact[seeded] = max(exact[seeded], 1)
    assert given_out[seeded] >= 1
    assert all(0 <= share <= least for share, least in zip(given_out, exact, strict=True))
    # The rest of k suffices for one of each bucket that l still needs; no other tuple is given up.
    assert k - sum(given_out) >= l - sum(share > 0 for share in given_out)
    if k - sum(exact) >= l - sum(share > 0 for share in exact):
        assert given_out == exact
    else:
        assert k - sum(given_out) == l - sum(share > 0 for share in given_out)
