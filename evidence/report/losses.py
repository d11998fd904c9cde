"""Information loss by attribute, and over time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.policy import Policy
from crenel.evidence.losses import loss_of
from crenel.evidence.outputs import ends, published_nodes
from crenel.evidence.published_sets import PublishedSets
from crenel.evidence.report.context import ReportError
from crenel.evidence.report.releases import PublishedReleases

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 182, 364, 3640, 36400)),
)
_MOST_PARTS = 24


def known_nodes(left: PublishedReleases, attribute: Categorical) -> NDArray[np.int64]:
    """Return the node of each published label; raise ``ReportError`` for a label that the hierarchy lacks."""
    nodes = published_nodes(attribute.hierarchy, left.table[attribute.name])
    if (nodes < 0).any():
        raise _foreign(attribute.name)
    return nodes


def sets(left: PublishedReleases, attribute: Categorical) -> PublishedSets:
    """Return the published sets of an attribute; raise ``ReportError`` for a label that the hierarchy lacks."""
    published = PublishedSets.read(attribute, left.table[attribute.name])
    if not published.is_known.all():
        raise _foreign(attribute.name)
    return published


def _foreign(name: str) -> ReportError:
    return ReportError(
        f"released.{name}: holds labels that policy.quasi_identifiers.{name}.hierarchy does not; the outputs are of "
        "another policy: give the one that they were made with"
    )


def loss_by_attribute(left: PublishedReleases, policy: Policy) -> Iterator[tuple[str, float]]:
    """Yield the mean loss of each quasi-identifier over tuples, in [0, 1] (CASTLE, Section 2.2); of a set its own.

    A number without a domain is measured by the range of all published values. Attributes with a representative value
    are omitted.
    """
    if not left.tuples.sum():
        return
    for attribute in policy.attributes:
        is_shown = isinstance(attribute, Categorical) or f"{attribute.name}_min" in left.table.column_names
        if is_shown and not attribute.has_representative:
            yield attribute.name, float(np.average(loss_of(attribute, left.table), weights=left.tuples))


def intervals(left: PublishedReleases, attribute: Numeric) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower and upper ends of a number in each release; raise ``ReportError`` for one that must not miss."""
    name = attribute.name
    if attribute.missing == "reject" and any(left.table[f"{name}_{end}"].null_count for end in ("min", "max")):
        raise ReportError(f"released.{name}_min: holds rows without a number; were the outputs made by this policy?")
    return ends(attribute, left.table)


def loss_over_time(left: PublishedReleases, least: int) -> list[tuple[str, float, int]]:
    """Return the mean loss over tuples by intervals of event time, or by release order where times are unknown.

    Parameters
    ----------
    least : minimum number of tuples per interval; smaller intervals are merged with the next

    Returns
    -------
    (interval, mean loss, tuples) of each, in order; none without an audit log
    """
    if left.loss is None or not left.tuples.sum():
        return []
    if left.time is not None:
        labels, part = _parts_of_time(left.time)
    else:
        labels, part = _parts_of_order(left)
    tuples = np.bincount(part, left.tuples, len(labels))
    lost = np.bincount(part, left.tuples * left.loss, len(labels))
    averages: list[tuple[str, float, int]] = []
    name, many, sum_of_losses = "", 0.0, 0.0
    for label, amount, loss in zip(labels, tuples.tolist(), lost.tolist(), strict=True):
        name = name or label
        many, sum_of_losses = many + amount, sum_of_losses + loss
        if many >= max(least, 1):
            averages.append((name, sum_of_losses / many, round(many)))
            name, many, sum_of_losses = "", 0.0, 0.0
    if many and averages:
        before, loss, amount = averages.pop()
        averages.append((before, (loss * amount + sum_of_losses) / (amount + many), round(amount + many)))
    return averages


def _parts_of_time(time: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
    """Divide time at round boundaries, which disclose no arrival time."""
    first, last = int(time.min()), int(time.max())
    step = next((step for step in _STEPS if (last - first) // step < _MOST_PARTS), (last - first) // _MOST_PARTS + 1)
    # Multiples of whole days are counted from the first day.
    begin = first // _DAY * _DAY if step > _DAY else first // step * step
    form = "%Y-%m-%d" if step >= _DAY else "%m-%d %H:%M" if step >= _MINUTE else "%H:%M:%S"
    starts = range(begin, last + 1, step)
    return [_written(start, form) for start in starts], (time - begin) // step


def _written(start: int, form: str) -> str:
    try:
        return datetime.fromtimestamp(start / 1000, timezone.utc).strftime(form)
    except (OverflowError, ValueError):  # outside the calendar's range of years
        return f"{start:,}"


def _parts_of_order(left: PublishedReleases) -> tuple[list[str], NDArray[np.int64]]:
    parts = min(_MOST_PARTS - 4, len(left.order))
    place = np.empty(len(left.order), np.int64)
    place[np.argsort(left.order, kind="stable")] = np.arange(len(left.order))
    return [f"{100 * i // parts}%" for i in range(parts)], place * parts // len(place)


def mean(column: object, weights: NDArray[np.int64]) -> float | None:
    """Return the mean of a column over tuples; None where it has no value."""
    known = ~pc.is_null(column).to_numpy()
    if not weights[known].sum():
        return None
    return float(np.average(pc.fill_null(column, 0).to_numpy()[known].astype(np.float64), weights=weights[known]))
