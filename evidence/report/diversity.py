"""Diversity of sensitive values within equivalence classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.evidence.report.releases import Releases


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


def diversity(left: Releases, column: pa.ChunkedArray) -> Diversity:
    """Return the diversity of a column of ``released``; suppressed tuples count neither in groups nor in the total."""
    codes = column.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    codes = codes[left.rows].astype(np.int64)
    if not len(codes):
        none = np.zeros(0)
        return Diversity(none.astype(np.int64), none.astype(np.int64), none, none)
    kinds = int(codes.max()) + 1
    pair, amount = np.unique(left.group * kinds + codes, return_counts=True)
    group, value = pair // kinds, pair % kinds
    rows = np.bincount(left.group)
    share = amount / rows[group]
    common = np.bincount(codes, minlength=kinds) / len(codes)
    # The distance is the sum of positive differences, because the negative ones have the same sum.
    more = np.maximum(share - common[value], 0)
    return Diversity(
        rows=rows.astype(np.int64),
        values=np.bincount(group),
        entropy=np.abs(np.bincount(group, -share * np.log2(share))),
        distance=np.bincount(group, more).astype(np.float64),
    )
