"""Published forms of quasi-identifiers beside intervals and common ancestors: sets, and representatives of classes.

The form changes what a class is published as, and not which tuples form it. So every algorithm releases the same
classes, and all members of a class share one published value.

A set lists each value that occurs in the class, and no other. A representative is the mean, median or mode of the class
(as in SUHDSA, Section 3.1). Both depend on all members of one class. A tuple that is published under the
generalization of another class could lie outside that class's set, and would not be part of its mean, so such releases
have neither.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.release_buffer import AGAIN, GENERALIZED, REUSED, WIDENED
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import ABSENT, SEPARATOR, Categorical, Numeric
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.domain import Boxes, domain
from crenel.anonymity.space.ends import round_all

MOST_LISTED = 100
"""Maximum number of values in a set; a class with more is published under their common ancestor, as a set of one label.

Every record of the class repeats the set, so that an unbounded set would have the square of the class's size."""


def with_forms(
    releases: Releases,
    policy: Policy,
    released: NDArray[np.int32],
    numeric: NDArray[np.float64],
    leaf: NDArray[np.int32],
    offsets: NDArray[np.int32],
    *,
    k: int,
    subject: NDArray[np.uint64] | None,
    in_classes: bool = True,
) -> Releases:
    """Return releases whose quasi-identifiers have the forms that the policy asks for.

    A number that may be missing has a position among the others while classes are formed. The interval of a class is
    then narrowed to the members that have the number, unless a tuple may be published under it alone. A class has no
    mean and no median where fewer than k persons have the number: it might be the number of one of them.

    Parameters
    ----------
    releases : releases under intervals and common ancestors
    released : (members,) row of each member in ``numeric`` and ``leaf``, release by release
    numeric, leaf : (tuples, attributes) values as they were generalized, with noise where noise is configured; leaves
        are numbered over all hierarchies
    offsets : (categorical,) number of the first node of each hierarchy
    k : minimum number of persons behind a mean or a median
    subject : (tuples,) keyed hashes; None where the policy names no subject, and each tuple counts as a person
    in_classes : ``crenel.anonymity.algorithm.ShardContext.publishes_in_classes``

    Raises
    ------
    InvariantError
        A tuple would be published under the form of a class to which it does not belong, or alone under its own value.
    """
    represented = any(attribute.has_representative for attribute in policy.attributes)
    if not (represented or policy.states_published_loss):
        return releases
    if policy.sets or represented:
        _require_classes(releases, one_value=represented)
    lower, upper, node = releases.lower.copy(), releases.upper.copy(), releases.node.copy()
    lost, listed = releases.loss.copy(), []
    presence = dict(policy.presence)
    members = {
        a: _numbered(releases, numeric[released, a], leaf[released, c] - offsets[c] != ABSENT)
        for a, c in presence.items()
    }
    if in_classes:
        for a, c in presence.items():
            mixed = (node[:, c] == policy.categorical[c].hierarchy.root) & (releases.kind != GENERALIZED)
            _narrow(*members[a], mixed, lower[:, a], upper[:, a])
        if any(policy.numeric[a].ends is not None for a in presence):
            round_all(domain(policy), Boxes(lower, upper, node))
    for a, c in presence.items():
        # Noise and a grid of ends may have widened an interval that is not published.
        lower[node[:, c] == ABSENT, a] = upper[node[:, c] == ABSENT, a] = policy.numeric[a].middle
        width = (releases.upper[:, a] - releases.lower[:, a]) - (upper[:, a] - lower[:, a])
        lost -= _share(policy.numeric[a], width) / len(policy.attributes)
    for a, number in enumerate(policy.numeric):
        if number.has_representative:
            values, tuples = members.get(a, (numeric[released, a], releases.tuples))
            representative = _number(number, values, tuples)
            lower[:, a] = upper[:, a] = np.clip(representative, lower[:, a], upper[:, a])
            if a in presence:
                has_number = leaf[released, presence[a]] - offsets[presence[a]] != ABSENT
                few = _persons(releases, has_number, None if subject is None else subject[released]) < k
                lower[few, a] = upper[few, a] = np.nan
    for a, category in enumerate(policy.categorical):
        leaves = leaf[released, a] - offsets[a]
        if category.has_representative:
            node[:, a] = _mode(category, releases, leaves)
        elif category.publish == "set":
            texts, losses = _sets(category, releases, leaves, node[:, a])
            listed.append(texts)
            lost += (losses - category.hierarchy.loss[node[:, a]]) / len(policy.attributes)
    published_loss = np.maximum(lost, 0.0) if policy.states_published_loss else releases.published_loss
    return replace(releases, lower=lower, upper=upper, node=node, listed=tuple(listed), published_loss=published_loss)


def _require_classes(releases: Releases, *, one_value: bool) -> None:
    """Raise if a release is no whole class; fully generalized tuples may have sets, which then are the root."""
    if np.isin(releases.kind, (REUSED, AGAIN, WIDENED)).any():
        raise InvariantError("a reused generalization has no set and no representative; nothing was emitted")
    if one_value and (releases.kind == GENERALIZED).any():
        raise InvariantError("a representative would be the value of one tuple; nothing was emitted")


def _numbered(
    releases: Releases, values: NDArray[np.float64], has_number: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the values of the members that have a number, and how many each release has of them.

    A release in which nobody has a number keeps all of its members.
    """
    if not len(releases):
        return values, releases.tuples
    some = np.add.reduceat(has_number, releases.offsets[:-1], dtype=np.int64) > 0
    kept = has_number | ~np.repeat(some, releases.tuples)
    return values[kept], np.add.reduceat(kept, releases.offsets[:-1], dtype=np.int64)


def _persons(releases: Releases, chosen: NDArray[np.bool_], subject: NDArray[np.uint64] | None) -> NDArray[np.int64]:
    """Return (releases,) the number of distinct persons among some members; ``subject``: (members,) or None."""
    release = np.repeat(np.arange(len(releases)), releases.tuples)[chosen]
    if subject is not None:
        order = np.lexsort((subject[chosen], release))
        release, person = release[order], subject[chosen][order]
        first = np.ones(len(release), np.bool_)
        first[1:] = (release[1:] != release[:-1]) | (person[1:] != person[:-1])
        release = release[first]
    return np.bincount(release, minlength=len(releases))


def _narrow(
    values: NDArray[np.float64],
    tuples: NDArray[np.int64],
    mixed: NDArray[np.bool_],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Narrow the intervals of some releases, in place, to the values of ``_numbered``."""
    if mixed.any():
        start = np.cumsum(tuples) - tuples
        lower[mixed] = np.minimum.reduceat(values, start)[mixed]
        upper[mixed] = np.maximum.reduceat(values, start)[mixed]


def _share(attribute: Numeric, width: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return widths as shares of the domain."""
    lowest, highest = attribute.domain or (0.0, 0.0)
    return width / (highest - lowest) if highest > lowest else np.zeros(len(width))


def _number(attribute: Numeric, values: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (releases,) the mean or median of each class; ``values``: release by release, ``size`` of each."""
    if not len(size):
        return np.zeros(0)
    start = np.cumsum(size) - size
    if attribute.publish == "median":
        ordered = values[np.lexsort((values, np.repeat(np.arange(len(size)), size)))]
        # Halves, because a sum may overflow.
        halves = ordered[start + (size - 1) // 2] / 2 + ordered[start + size // 2] / 2
        return np.asarray(halves, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.add.reduceat(values, start) / size
    overflows = ~np.isfinite(mean)
    if overflows.any():
        mean[overflows] = np.add.reduceat(values / np.repeat(size, size), start)[overflows]
    return np.asarray(mean, np.float64)


def _mode(attribute: Categorical, releases: Releases, leaves: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return (releases,) the most common leaf of each class; of several, the leftmost."""
    release, leaf, count = _occurring(attribute, releases, leaves)
    best = np.lexsort((leaf, -count, release))
    first = np.searchsorted(release, np.arange(len(releases)))
    return leaf[best[first]].astype(np.int32)


def _sets(
    attribute: Categorical, releases: Releases, leaves: NDArray[np.int32], node: NDArray[np.int32]
) -> tuple[list[str], NDArray[np.float64]]:
    """Return (releases,) the set of each release as text, in the order of the hierarchy, and its loss."""
    tree = attribute.hierarchy
    release, leaf, _ = _occurring(attribute, releases, leaves)
    bounds = np.searchsorted(release, np.arange(len(releases) + 1))
    size = np.diff(bounds)
    is_ancestor = (size > MOST_LISTED) | (releases.kind == GENERALIZED)
    texts = [
        tree.labels[above] if as_ancestor else SEPARATOR.join([tree.labels[i] for i in leaf[start:stop].tolist()])
        for above, as_ancestor, start, stop in zip(
            node.tolist(), is_ancestor.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True
        )
    ]
    return texts, np.where(is_ancestor, tree.loss[node], (size - 1) / max(tree.leaves - 1, 1))


def _occurring(
    attribute: Categorical, releases: Releases, leaves: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return each leaf that occurs in a release, as (pairs,) release and leaf in ascending order, and its count."""
    release = np.repeat(np.arange(len(releases)), releases.tuples)
    pairs, counts = np.unique(release * attribute.hierarchy.leaves + leaves, return_counts=True)
    return pairs // attribute.hierarchy.leaves, pairs % attribute.hierarchy.leaves, counts
