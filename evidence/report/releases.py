"""Releases of a run, separated from suppressed tuples that were published, and their diversity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.verify.classes import ReleasedClasses

GENERALIZED = "generalized"
"""Kind of a release of one suppressed tuple."""

_ALONE = ("reused", "again")
"""Kinds of releases under a generalization that was published before."""


@dataclass(frozen=True)
class PublishedReleases:
    """Published releases, without suppressed tuples.

    Attributes
    ----------
    table : rows of the audit log; without one, the generalization of each group of rows that share it
    tuples : (releases,) number of tuples
    subjects : (releases,) number of persons who share the generalization, from the audit log; None without one
    loss : (releases,) InfoLoss in [0, 1]; None without an audit log
    time : (releases,) event time in epoch milliseconds; None where any is unknown
    order : (releases,) order of release within shards
    alone : (releases,) whether a single tuple was published under an earlier generalization
    rows : (rows,) rows of ``released`` that share their generalization with no suppressed tuple
    group : (rows,) a number for each of these rows, equal where they share their generalization
    suppressed : rows of ``released`` that were suppressed, and published fully generalized
    """

    table: pa.Table
    tuples: NDArray[np.int64]
    subjects: NDArray[np.int64] | None
    loss: NDArray[np.float64] | None
    time: NDArray[np.int64] | None
    order: NDArray[np.int64]
    alone: NDArray[np.bool_]
    rows: NDArray[np.int64]
    group: NDArray[np.int64]
    suppressed: int

    @property
    def smallest_group(self) -> int | None:
        """Size in rows of the smallest group that shares a generalization; None without rows."""
        return int(np.bincount(self.group).min()) if len(self.group) else None


def releases(outputs: RunOutputs, *, published: bool) -> PublishedReleases:
    """Return the releases of a run.

    Parameters
    ----------
    published : whether suppressed tuples were published; without an audit log, fully generalized rows count as these
    """
    classes, audit = ReleasedClasses.of(outputs), outputs.audit
    if audit is None:
        return _without_audit(outputs, classes.released, published=published)
    suppressed = _mask(pc.equal(audit["kind"], GENERALIZED))
    kept = audit.filter(pa.array(~suppressed))
    # A row does not state its kind, so rows under the generalization of suppressed ones are indistinguishable.
    rows = np.flatnonzero(~np.isin(classes.released, classes.audit[suppressed]))
    time = kept["event_time"]
    return PublishedReleases(
        table=kept,
        tuples=_numbers(kept, "tuples"),
        subjects=_numbers(kept, "subjects"),
        loss=kept["loss"].to_numpy().astype(np.float64),
        time=None if time.null_count or not len(time) else _numbers(kept, "event_time"),
        order=_numbers(kept, "release_id"),
        alone=_mask(pc.is_in(kept["kind"], pa.array(_ALONE))),
        rows=rows,
        group=_renumbered(classes.released[rows]),
        suppressed=int(suppressed.sum()),
    )


@dataclass(frozen=True)
class Diversity:
    """Diversity of one sensitive column, by group of rows that share a generalization.

    Attributes
    ----------
    rows : (groups,) rows of the group
    values : (groups,) number of distinct values
    entropy : (groups,) of the values, in bits
    distance : (groups,) distance between the value distributions of the group and of all rows, from 0 to 1 (t-closeness
        with equal distance, Li, Li and Venkatasubramanian 2007)
    """

    rows: NDArray[np.int64]
    values: NDArray[np.int64]
    entropy: NDArray[np.float64]
    distance: NDArray[np.float64]


def diversity(left: PublishedReleases, rows: NDArray[np.int64], column: pa.ChunkedArray) -> Diversity:
    """Return the diversity of a column of ``released``; suppressed tuples count neither in groups nor in the total.

    ``rows`` and ``column`` are as ``crenel.evidence.outputs.values_of`` returns them. A row counts once for each value.
    """
    codes = column.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    first, stop = np.searchsorted(rows, left.rows, "left"), np.searchsorted(rows, left.rows, "right")
    counts = stop - first
    group_of = np.repeat(left.group, counts)
    codes = codes[np.repeat(stop - np.cumsum(counts), counts) + np.arange(counts.sum())].astype(np.int64)
    if not len(codes):
        none = np.zeros(0)
        return Diversity(none.astype(np.int64), none.astype(np.int64), none, none)
    kinds = int(codes.max()) + 1
    pair, amount = np.unique(group_of * kinds + codes, return_counts=True)
    group, value = pair // kinds, pair % kinds
    share = amount / np.bincount(group_of)[group]
    common = np.bincount(codes, minlength=kinds) / len(codes)
    # The distance is the sum of positive differences, because the negative ones have the same sum.
    more = np.maximum(share - common[value], 0)
    return Diversity(
        rows=np.bincount(left.group).astype(np.int64),
        values=np.bincount(group),
        entropy=np.abs(np.bincount(group, -share * np.log2(share))),
        distance=np.bincount(group, more).astype(np.float64),
    )


def _without_audit(outputs: RunOutputs, groups: NDArray[np.int64], *, published: bool) -> PublishedReleases:
    telling = ~_tells_nothing(outputs.released, outputs.policy) if published else np.ones(len(groups), np.bool_)
    rows = np.flatnonzero(telling)
    group = _renumbered(groups[rows])
    first = np.unique(group, return_index=True)[1]
    return PublishedReleases(
        table=outputs.released.select(list(outputs.generalization)).take(pa.array(rows[first])),
        tuples=np.bincount(group).astype(np.int64),
        subjects=None,
        loss=None,
        time=None,
        order=rows[first],
        alone=np.zeros(len(first), np.bool_),
        rows=rows,
        group=group,
        suppressed=int((~telling).sum()),
    )


def _tells_nothing(released: pa.Table, policy: Policy) -> NDArray[np.bool_]:
    """Return (rows,) whether each row has the widest interval of each number, and the root of each hierarchy."""
    is_widest = np.ones(released.num_rows, np.bool_)
    for attribute in policy.attributes:
        if not isinstance(attribute, Numeric):
            root = attribute.hierarchy.labels[attribute.hierarchy.root]
            is_widest &= _mask(pc.equal(released[attribute.name], root))
        elif f"{attribute.name}_min" in released.column_names and released.num_rows:
            low, high = (released[f"{attribute.name}_{end}"].to_numpy() for end in ("min", "max"))
            least, most = attribute.domain or (low.min(), high.max())
            is_widest &= (low <= least) & (high >= most)
    return is_widest


def _renumbered(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    renumbered: NDArray[np.int64] = np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return renumbered


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = table[name].to_numpy().astype(np.int64)
    return numbers


def _mask(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = pc.fill_null(column, False).to_numpy().astype(np.bool_)
    return mask
