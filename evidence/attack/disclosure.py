"""Attribute disclosure and homogeneity attacks on sensitive values.

The attacker knows the quasi-identifiers of a person and takes the best-fitting released rows. The attacker weights each
row by how few persons fit it, and guesses the value with the largest weight. Inference about persons outside the data
is no disclosure; these persons are the control group (Giomi and others, "A Unified Framework for Quantifying Privacy
Risk in Synthetic Data", 2023).
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
    """Values of a sensitive column as numbers from 0, the most common value of the released rows first.

    Attributes
    ----------
    released : (released rows,)
    known : (tuples,) true values; values without a released row have larger numbers
    """

    released: Integers
    known: Integers


def values(released: pa.ChunkedArray, known: pa.Array) -> Values:
    """Assign numbers to the values of both columns; equal numbers are equal values, however written."""
    left, came = released.to_pandas(), pa.chunked_array([known]).to_pandas()
    if pa.types.is_integer(known.type) or pa.types.is_floating(known.type) or pa.types.is_decimal(known.type):
        left, came = pd.to_numeric(left), pd.to_numeric(came)
    else:
        left, came = left.astype(str), pa.chunked_array([known.cast(pa.string())]).to_pandas().astype(str)
    commonest = pd.Index(left.value_counts(sort=True, dropna=False).index)
    numbers = pd.Index(commonest.append(pd.Index(came.unique())).unique())
    return Values(numbers.get_indexer(left).astype(np.int64), numbers.get_indexer(came).astype(np.int64))


def guess(seen: Groups, weight: Floats, points: Floats, value: Integers) -> Integers:
    """Return (points,) the guessed value of each; -1 without released rows. ``value``: (released rows,)."""
    rows, offsets = seen.rows()
    return voted(seen.lower, seen.upper, weight, np.ascontiguousarray(points), seen.metric, offsets, value[rows])


def disclose(seen: Groups, weight: Floats, points: Floats, value: Values, truth: Integers) -> tuple[Tries, Tries]:
    """Return guesses of persons' sensitive values, and guesses of the most common value of all as the baseline.

    Parameters
    ----------
    points : (persons, dimensions) the attacker's knowledge of each
    truth : (persons,) true value of each, as in ``Values.known``
    """
    guessed = guess(seen, weight, points, value.released)
    return Tries(len(truth), float((guessed == truth).sum())), Tries(len(truth), float((truth == 0).sum()))


def majorities(seen: Groups, value: Integers) -> Integers:
    """Return (groups,) the most common value of each; ``value``: (released rows,)."""
    keys, counts = np.unique(np.column_stack([seen.of, value]), axis=0, return_counts=True)
    # The most common value is last; the lower of two equally common values wins.
    order = np.lexsort((-keys[:, 1], counts, keys[:, 0]))
    last = np.cumsum(np.bincount(keys[:, 0], minlength=len(seen.size))) - 1
    commonest: Integers = keys[order[last], 1]
    return commonest


def homogeneity(seen: Groups, value: Integers, random: np.random.Generator) -> tuple[Tries, Tries]:
    """Return released rows in groups of a single value, and their number after a random permutation of values."""
    return _homogeneous(seen, value), _homogeneous(seen, random.permutation(value))


def _homogeneous(seen: Groups, value: Integers) -> Tries:
    rows, offsets = seen.rows()
    if not len(rows):
        return Tries(0, 0.0)
    mine = value[rows]
    least, most = (of.reduceat(mine, offsets[:-1]) for of in (np.minimum, np.maximum))
    return Tries(len(rows), float(seen.size[least == most].sum()))
