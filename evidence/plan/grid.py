"""Grid of alternatives around a configured setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from math import inf
from typing import Any

import numpy as np

from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.model.policy import SHARD_BY_REGIONS, SHARD_BY_SUBJECT
from crenel.evidence.plan.choice import Wanted
from crenel.evidence.plan.point import Point
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.state.columns import NO_FURTHER

_FACTORS = (1.0, 0.5, 2.0, 0.25, 4.0)
_WITHIN = (0.9, 0.45, 0.225, 0.1)
"""Fractions of the maximum delay to try."""
_OFTEN = 100
"""Buffered tuples per person of a release, where no delay bound is configured."""

Wait = tuple[int | None, int | None]


@dataclass(frozen=True)
class Grid:
    """Values of each dimension; the first is the nearest to the configured one.

    Attributes
    ----------
    algorithms : by name
    k, l : values
    waits : delay bounds in tuples and milliseconds
    shards : count, and the attribute or method that divides the stream
    further : values by the dotted name of a field
    values : minimum number of distinct values over the sample's sensitive columns, 1 without any; it bounds l
    """

    algorithms: tuple[str, ...]
    k: tuple[int, ...]
    l: tuple[int, ...]  # noqa: E741 - the field's own name for it
    waits: tuple[Wait, ...]
    shards: tuple[tuple[int, str], ...]
    further: Mapping[str, tuple[str, ...]]
    values: int

    def points(self, most: int) -> list[Point]:
        """Return settings, those nearest to the first values first, balanced over algorithms; ``most`` at most."""
        names, values = tuple(self.further), tuple(self.further.values())
        dimensions: list[Sequence[Any]] = [self.k, self.l, self.waits, self.shards, *values]
        corners = sorted(
            product(*(range(len(dimension)) for dimension in dimensions)), key=lambda place: (sum(place), place)
        )
        made: list[list[Point]] = []
        for algorithm in self.algorithms:
            points = []
            for place in corners:
                chosen: list[Any] = [dimension[i] for dimension, i in zip(dimensions, place, strict=True)]
                k, l, wait, shards, *further = chosen  # noqa: E741
                if l <= k:
                    pairs = tuple(zip(names, further, strict=True))
                    points.append(Point(algorithm, k, l, wait[0], wait[1], shards[0], shards[1], pairs))
            made.append(points)
        return [point for row in zip_longest(*made) for point in row if point is not None][:most]


def around(setting: ReplaySetting, sample: Sample, wanted: Wanted, own: Mapping[str, tuple[Any, ...]]) -> Grid:
    """Return the grid around a configured setting.

    Parameters
    ----------
    wanted : constraints; a bounded delay determines the delay bounds
    own : user-defined values by the name of a dimension of ``Grid``, which they replace, or by a dotted field
    """
    k, l = wanted.k, wanted.l  # noqa: E741
    values = _values(sample)
    dotted = {name: texts for name, texts in own.items() if "." in name}
    grid = Grid(
        values=values,
        algorithms=_algorithms(setting, sample),
        k=tuple(dict.fromkeys(v for v in (k, setting.privacy.k, 2 * k, max(k // 2, 1)) if v >= l)),
        l=tuple(v for v in (l, l + 1, l - 1) if v == l or 1 <= v <= min(k, values)),
        waits=_waits(setting, sample, wanted, k),
        shards=_shards(setting, sample),
        further=dotted,
    )
    changed: dict[str, Any] = {name: texts for name, texts in own.items() if name not in dotted}
    return replace(grid, **changed)


def _values(sample: Sample) -> int:
    codes = np.split(sample.tuples.sensitive, np.cumsum(sample.policy.widths)[:-1], axis=1)
    return min((len(np.unique(column[column != NO_FURTHER])) for column in codes if column.size), default=1)


def _algorithms(setting: ReplaySetting, sample: Sample) -> tuple[str, ...]:
    others = [
        other.name
        for other in known_algorithms().values()
        if (setting.sampling_and_noise is None or other.noise)
        and (setting.privacy.lasting is None or other.lasting)
        and (not sample.policy.arrays or other.arrays)
        and not any(field.is_required() and "." not in path for path, field in other.settings())
    ]
    return tuple(dict.fromkeys((setting.algorithm.name, *others)))


def _waits(setting: ReplaySetting, sample: Sample, wanted: Wanted, k: int) -> tuple[Wait, ...]:
    tuples, milliseconds = setting.algorithm.delay_bounds
    if tuples is None and milliseconds is None:
        tuples = max(min(_OFTEN * k, len(sample) // 4), 1)
    if wanted.delay == inf:
        return tuple(dict.fromkeys(scaled((tuples, milliseconds), factor) for factor in _FACTORS))
    if not sample.milliseconds:
        most = wanted.delay / setting.shards.count
        return tuple(dict.fromkeys((rounded(most * share), None) for share in _WITHIN))
    # The lag of the watermark reduces the usable delay.
    reach = max(wanted.delay - sample.lag, wanted.delay / 4)
    arrivals = reach * len(sample) / sample.milliseconds / setting.shards.count
    return tuple(
        dict.fromkeys(
            (
                None if tuples is None else rounded(arrivals * share),
                None if milliseconds is None else rounded_time(reach * share),
            )
            for share in _WITHIN
        )
    )


def _shards(setting: ReplaySetting, sample: Sample) -> tuple[tuple[int, str], ...]:
    configured = (setting.shards.count, setting.shards.by if setting.shards.count > 1 else SHARD_BY_SUBJECT)
    usual = [configured]
    if setting.sampling_and_noise is None or sample.policy.subject is not None:
        usual += [(1, SHARD_BY_SUBJECT), (4, SHARD_BY_SUBJECT)]
    if setting.sampling_and_noise is None and setting.privacy.lasting is None:
        usual.append((max(setting.shards.count, 4), SHARD_BY_REGIONS))
    return tuple(dict.fromkeys(usual))


def scaled(wait: Wait, factor: float) -> Wait:
    """Return a delay bound scaled by a factor, in round numbers; unchanged for the factor 1."""
    if factor == 1:
        return wait
    tuples, milliseconds = wait
    return (
        None if tuples is None else rounded(tuples * factor),
        None if milliseconds is None else rounded_time(milliseconds * factor),
    )


def rounded(tuples: float) -> int:
    """Round tuples to two digits, at least 1."""
    return max(int(float(f"{tuples:.2g}")), 1)


def rounded_time(milliseconds: float) -> int:
    """Round milliseconds down to a whole number of a suitable unit."""
    for unit in (3_600_000, 60_000, 1000):
        if milliseconds >= 10 * unit:
            return int(milliseconds // unit) * unit
    return max(int(milliseconds), 1)


def neighbors(point: Point, grid: Grid) -> Iterator[tuple[str, Point]]:
    """Yield one step in both directions of each dimension, with the name of the dimension."""
    for k in (max(point.k // 2, 1), 2 * point.k):
        if k >= point.l and k != point.k:
            yield "k", replace(point, k=k)
    for l in (point.l - 1, point.l + 1):  # noqa: E741
        if 1 <= l <= min(point.k, grid.values):
            yield "l", replace(point, l=l)
    for factor in (0.5, 2.0):
        tuples, milliseconds = scaled((point.tuples, point.milliseconds), factor)
        yield "delay", replace(point, tuples=tuples, milliseconds=milliseconds)
    for count in (point.shards // 2, point.shards * 2):
        if count >= 1:
            by = SHARD_BY_SUBJECT if count == 1 else point.by
            yield "shards", replace(point, shards=count, by=by)
    for algorithm in grid.algorithms:
        if algorithm != point.algorithm:
            yield "algorithm", replace(point, algorithm=algorithm)
