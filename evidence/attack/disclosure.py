"""What is somebody's sensitive value: disclosure, and homogeneity.

Who knows somebody's quasi-identifiers takes the released rows that fit, each by how few people fit it, and guesses the
value that most of them have. What is learned so of people who are not in the data at all is no harm of theirs; they are
the control group (Giomi and others, "A Unified Framework for Quantifying Privacy Risk in Synthetic Data", 2023).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from crenel.evidence.attack.attack_data import Groups
from crenel.evidence.attack.result import Tries
from crenel.evidence.attack.search import Floats, Integers, voted


@dataclass(frozen=True)
class Values:
    """The values of a sensitive column as numbers from 0, the commonest of the released rows first.

    Attributes
    ----------
    released : (released rows,)
    known : (tuples,) in truth; a value that no released row has is some larger number
    """

    released: Integers
    known: Integers


def values(released: pa.ChunkedArray, known: pa.Array) -> Values:
    """Number the values of both; texts that are the same numbers are the same values where the column is of numbers."""
    left, came = released.to_pandas(), pa.chunked_array([known]).to_pandas()
    if pa.types.is_integer(known.type) or pa.types.is_floating(known.type) or pa.types.is_decimal(known.type):
        left, came = pd.to_numeric(left), pd.to_numeric(came)
    else:
        left, came = left.astype(str), pa.chunked_array([known.cast(pa.string())]).to_pandas().astype(str)
    commonest = pd.Index(left.value_counts(sort=True, dropna=False).index)
    numbers = pd.Index(commonest.append(pd.Index(came.unique())).unique())
    return Values(numbers.get_indexer(left).astype(np.int64), numbers.get_indexer(came).astype(np.int64))


def guess(seen: Groups, weight: Floats, points: Floats, value: Integers) -> Integers:
    """(points,) the value that is guessed of each; ``value``: (released rows,). -1 where nothing was released."""
    rows, offsets = seen.rows()
    return voted(seen.lower, seen.upper, weight, np.ascontiguousarray(points), seen.scale, offsets, value[rows])


def disclose(seen: Groups, weight: Floats, points: Floats, value: Values, truth: Integers) -> tuple[Tries, Tries]:
    """Guesses of the values of some people, and guesses of the commonest value of all.

    Parameters
    ----------
    points : (people, dimensions) what is known of each
    truth : (people,) the value of each, as ``Values.known``
    """
    guessed = guess(seen, weight, points, value.released)
    return Tries(len(truth), float((guessed == truth).sum())), Tries(len(truth), float((truth == 0).sum()))


def majorities(seen: Groups, value: Integers) -> Integers:
    """(groups,) the commonest value of each; ``value``: (released rows,)."""
    keys, counts = np.unique(np.column_stack([seen.of, value]), axis=0, return_counts=True)
    # The commonest last, and of two as common the lower one.
    order = np.lexsort((-keys[:, 1], counts, keys[:, 0]))
    last = np.cumsum(np.bincount(keys[:, 0], minlength=len(seen.size))) - 1
    commonest: Integers = keys[order[last], 1]
    return commonest


def homogeneity(seen: Groups, value: Integers, random: np.random.Generator) -> tuple[Tries, Tries]:
    """Released rows in whose group all rows have one value, and how many there are where values are dealt by chance."""
    return _homogeneous(seen, value), _homogeneous(seen, random.permutation(value))


def _homogeneous(seen: Groups, value: Integers) -> Tries:
    rows, offsets = seen.rows()
    if not len(rows):
        return Tries(0, 0.0)
    mine = value[rows]
    least, most = (of.reduceat(mine, offsets[:-1]) for of in (np.minimum, np.maximum))
    return Tries(len(rows), float(seen.size[least == most].sum()))
