"""Categories and ranges with a suppression rate above average, without disclosure of single values or persons.

Counts are tuples, rounded down to a multiple of k. They are reported only where at least k persons are behind them,
among all tuples of a part and among its suppressed ones. A category is an inner node of its hierarchy with at least two
values. A range ends on a round grid, regardless of the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import floor, inf, log10, sqrt

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.evidence.sample import Sample

_MORE = 1.2
"""Minimum ratio of a part's suppression rate to the overall rate."""
_CLEARLY = 3.0
"""Minimum deviation from the overall rate, in standard deviations of the count."""
_CUTS = 8
"""Number of quantile intervals whose ends are candidates for the ends of ranges."""
_GRID = 50
"""Approximate number of round steps in the range of a number."""
_FEWEST_WHOLE = 2
"""Minimum number of whole numbers in a range."""


@dataclass(frozen=True)
class Part:
    """A category or a range.

    Attributes
    ----------
    column, label : the attribute, and a node of its hierarchy or an interval
    tuples, suppressed : rounded down to a multiple of k
    times : ratio of its suppression rate to the overall rate, by these counts
    """

    column: str
    label: str
    tuples: int
    suppressed: int
    times: float

    @property
    def share(self) -> float:
        """Suppressed share of its tuples, 0 to 1."""
        return self.suppressed / self.tuples


def above_their_share(sample: Sample, suppressed: NDArray[np.bool_], k: int, most: int) -> list[Part]:
    """Return parts with a suppression rate above average, the most significant first.

    Parameters
    ----------
    suppressed : (tuples,) whether each was
    k : minimum number of persons behind each count, 1 or more
    most : maximum number of parts
    """
    total = float(suppressed.mean()) if len(suppressed) else 0.0
    if not 0 < total < 1:
        return []
    ranked: list[tuple[float, Part]] = []
    for column, label, inside in _all(sample, suppressed, k):
        tuples, count = int(inside.sum()), int((inside & suppressed).sum())
        if min(persons(sample, inside), persons(sample, inside & suppressed)) < k:
            continue
        part = Part(column, label, tuples // k * k, count // k * k, (count // k) / (tuples // k) / total)
        clear = (count - tuples * total) / sqrt(tuples * total * (1 - total))
        if part.times >= _MORE and clear >= _CLEARLY:
            ranked.append((clear, part))
    return [part for _, part in sorted(ranked, key=lambda pair: -pair[0])[:most]]


def persons(sample: Sample, chosen: NDArray[np.bool_]) -> int:
    """Count the persons behind some tuples."""
    subject = sample.tuples.subject
    return int(chosen.sum()) if subject is None else len(np.unique(subject[chosen]))


def _all(sample: Sample, suppressed: NDArray[np.bool_], k: int) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    for number, values in zip(sample.policy.numeric, sample.numbers.T, strict=True):
        cuts = _cuts(sample, number, values, suppressed, k)
        bounds = [-inf, *cuts, inf]
        for lower, upper in pairwise(bounds):
            yield number.name, _interval(number, lower, upper), (values >= lower) & (values < upper)
    for i, category in enumerate(sample.policy.categorical):
        leaves = sample.tuples.categorical[:, i]
        tree = category.hierarchy
        for node in _nodes(category, np.bincount(leaves[suppressed], minlength=tree.leaves), k):
            inside = (leaves >= tree.first[node]) & (leaves <= tree.last[node])
            yield category.name, tree.labels[node], inside


def _nodes(category: Categorical, lost: NDArray[np.int64], k: int) -> Iterator[int]:
    """Yield nodes between values and root with at least two values, each set of values once.

    Only nodes with at least k suppressed tuples count, because built hierarchies may have very many nodes.

    Parameters
    ----------
    lost : (leaves,) suppressed tuples of each value
    """
    tree, known = category.hierarchy, {(0, category.hierarchy.leaves - 1)}
    up_to = np.concatenate([[0], np.cumsum(lost)])
    inner = np.arange(tree.leaves, tree.root)
    enough = up_to[tree.last[inner] + 1] - up_to[tree.first[inner]] >= k
    for node in inner[enough].tolist():
        values = int(tree.first[node]), int(tree.last[node])
        if values[0] < values[1] and values not in known:
            known.add(values)
            yield node


def _cuts(
    sample: Sample, number: Numeric, values: NDArray[np.float64], suppressed: NDArray[np.bool_], k: int
) -> list[float]:
    """Return range starts: quantiles of all and of suppressed values, on the grid, at least k persons apart."""
    shares, known = np.arange(1, _CUTS) / _CUTS, ~np.isnan(values)
    lower, upper = number.domain or np.quantile(values, (shares[0], shares[-1])).tolist()
    step = number.ends or _round_step((upper - lower) / _GRID)
    if number.name in sample.integers:
        step = max(step, float(_FEWEST_WHOLE))
    if not step or not (suppressed & known).any():
        return []
    wanted = np.concatenate([np.quantile(values[known], shares), np.quantile(values[suppressed & known], shares)])
    least, most = (-inf, inf) if number.domain is None else (lower + step, upper - step)
    cuts = [cut for cut in np.unique(np.round(wanted / step)) * step if least <= cut <= most]
    kept: list[float] = []
    for cut in cuts:
        if persons(sample, (values >= (kept[-1] if kept else -inf)) & (values < cut)) >= k:
            kept.append(float(cut))
    while kept and persons(sample, values >= kept[-1]) < k:
        kept.pop()
    return kept


def _round_step(about: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten; 0 for numbers up to 0."""
    if about <= 0:
        return 0.0
    power = 10.0 ** floor(log10(about))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= about * (1 - 1e-9))


def _interval(number: Numeric, lower: float, upper: float) -> str:
    if number.domain is not None:
        closed = upper == inf
        lower, upper = max(lower, number.domain[0]), min(upper, number.domain[1])
        return f"[{lower:.12g}, {upper:.12g}{']' if closed else ')'}"
    if lower == -inf:
        return "all" if upper == inf else f"below {upper:.12g}"
    return f"{lower:.12g} and above" if upper == inf else f"[{lower:.12g}, {upper:.12g})"
