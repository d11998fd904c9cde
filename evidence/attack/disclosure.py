"""Attribute disclosure and homogeneity attacks on sensitive values.

The attacker knows the quasi-identifiers of a person and takes the best-fitting released rows. The attacker weights each
row by how few persons fit it, and guesses the value with the largest weight. Inference about persons outside the data
is no disclosure; these persons are the control group (Giomi and others, "A Unified Framework for Quantifying Privacy
Risk in Synthetic Data", 2023). Of a sensitive array, the attacker guesses one value, and is right if the person's array
has it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crenel.evidence.attack.attack_data import RowGroups
from crenel.evidence.attack.result import Tries
from crenel.evidence.attack.search import Floats, Integers, voted
from crenel.evidence.outputs import elements

_TIME = re.compile(
    r"(?:(?P<day>\d{4,}-\d\d-\d\d)[ T])?(?P<second>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?(?:Z|\+00:?00)?", re.ASCII
)
"""Time in UTC, with or without its day."""

_DECIMAL = re.compile(r"-?\d+(?:\.\d*(?:E[+-]?\d{1,2})?|E[+-]?\d{1,2})", re.ASCII)
"""Decimal with a fraction or an exponent."""


@dataclass(frozen=True)
class SensitiveCodes:
    """Values of a sensitive column as numbers from 0, the most common value of the released rows first.

    Attributes
    ----------
    released : (released values,)
    row : (released values,) the released row of each; a row has several values of an array
    known : (tuples,) true values, or numbers of true arrays; values without a released row have larger numbers
    held : (pairs,) for arrays, number of each array * ``count`` + each of its values, ascending; None: one value each
    count : number of values
    """

    released: Integers
    row: Integers
    known: Integers
    held: Integers | None = None
    count: int = 0

    def holds(self, truth: Integers, guessed: Integers) -> NDArray[np.bool_]:
        """Return (persons,) whether each guess is the true value, or one of the true array's; ``truth``: ``known``."""
        if self.held is None:
            return np.asarray(truth == guessed)
        return np.isin(truth * self.count + guessed, self.held) & (guessed >= 0)


def values(released: pa.ChunkedArray, known: pa.Array, *, arrays: bool = False) -> SensitiveCodes:
    """Assign numbers to the values of both columns; equal numbers are equal values, however written.

    ``arrays``: whether both columns hold arrays, as JSON.
    """
    if arrays:
        return _values_of_arrays(released, known)
    left, came = released.to_pandas(), pa.chunked_array([known]).to_pandas()
    if pa.types.is_integer(known.type) or pa.types.is_floating(known.type) or pa.types.is_decimal(known.type):
        left, came = pd.to_numeric(left), pd.to_numeric(came)
    else:
        came = pa.chunked_array([known.cast(pa.string())]).to_pandas()
        left, came = _with_one_spelling(left), _with_one_spelling(came)
    commonest = pd.Index(left.value_counts(sort=True, dropna=False).index)
    numbers = pd.Index(commonest.append(pd.Index(came.unique())).unique())
    return SensitiveCodes(
        numbers.get_indexer(left).astype(np.int64), np.arange(len(left)), numbers.get_indexer(came).astype(np.int64)
    )


def _values_of_arrays(released: pa.ChunkedArray, known: pa.Array) -> SensitiveCodes:
    rows = [_elements(text) for text in released.to_pylist()]
    arrays = known.dictionary_encode(null_encoding="encode")
    distinct = [_elements(text) for text in arrays.dictionary.to_pylist()]
    common = Counter(value for array in rows for value in array)
    numbers = {value: number for number, (value, _) in enumerate(common.most_common())}
    for value in (value for array in distinct for value in array):
        numbers.setdefault(value, len(numbers))
    return SensitiveCodes(
        released=np.array([numbers[value] for array in rows for value in array], np.int64),
        row=np.repeat(np.arange(len(rows)), [len(array) for array in rows]),
        known=arrays.indices.to_numpy().astype(np.int64),
        held=np.array(
            [i * len(numbers) + numbers[value] for i, array in enumerate(distinct) for value in array], np.int64
        ),
        count=len(numbers),
    )


def _elements(array: str | None) -> list[str]:
    return [spelling(value) for value in elements(array)]


def _with_one_spelling(column: pd.Series[Any]) -> pd.Series[Any]:
    texts = column.astype(str)
    return texts.map({text: spelling(text) for text in texts.unique()})


def spelling(text: str) -> str:
    """Return the one spelling of a time in UTC or of a decimal, which sinks and SQL write differently, or the text.

    Examples
    --------
    >>> spelling("2024-02-29T08:00:00Z"), spelling("08:00:00.500"), spelling("1.50"), spelling("1E+2")
    ('2024-02-29 08:00:00', '08:00:00.5', '1.5', '100')
    """
    if (time := _TIME.fullmatch(text)) is not None:
        fraction = (time["fraction"] or "").rstrip("0")
        second = f"{time['second']}.{fraction}" if fraction else time["second"]
        return f"{time['day']} {second}" if time["day"] else second
    if _DECIMAL.fullmatch(text) is None:
        return text
    plain = f"{Decimal(text):f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def guess(seen: RowGroups, weight: Floats, points: Floats, value: SensitiveCodes) -> Integers:
    """Return (points,) the guessed value of each; -1 without released rows."""
    group = seen.group_of_row[value.row]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=len(seen.size)))])
    ordered = value.released[np.argsort(group, kind="stable")]
    return voted(seen.lower, seen.upper, weight, np.ascontiguousarray(points), seen.metric, offsets, ordered)


def disclose(
    seen: RowGroups, weight: Floats, points: Floats, value: SensitiveCodes, truth: Integers
) -> tuple[Tries, Tries]:
    """Return guesses of persons' sensitive values, and guesses of the most common value of all as the baseline.

    Parameters
    ----------
    points : (persons, dimensions) the attacker's knowledge of each
    truth : (persons,) true value of each, as in ``SensitiveCodes.known``
    """
    guessed = guess(seen, weight, points, value)
    right, usual = (value.holds(truth, guesses) for guesses in (guessed, np.zeros(len(truth), np.int64)))
    return Tries(len(truth), float(right.sum())), Tries(len(truth), float(usual.sum()))


def majorities(seen: RowGroups, value: SensitiveCodes) -> Integers:
    """Return (groups,) the most common value of each."""
    keys, counts = np.unique(
        np.column_stack([seen.group_of_row[value.row], value.released]), axis=0, return_counts=True
    )
    # The most common value is last; the lower of two equally common values wins.
    order = np.lexsort((-keys[:, 1], counts, keys[:, 0]))
    last = np.cumsum(np.bincount(keys[:, 0], minlength=len(seen.size))) - 1
    commonest: Integers = keys[order[last], 1]
    return commonest


def homogeneity(seen: RowGroups, value: SensitiveCodes, random: np.random.Generator) -> tuple[Tries, Tries]:
    """Return released rows in groups that share a value, and their number after a random permutation of values."""
    mixed = np.argsort(random.permutation(len(seen.group_of_row)))
    return _homogeneous(seen, value.released, value.row), _homogeneous(seen, value.released, mixed[value.row])


def _homogeneous(seen: RowGroups, value: Integers, row: Integers) -> Tries:
    if not len(seen.group_of_row):
        return Tries(0, 0.0)
    count = int(value.max()) + 1
    pairs, rows = np.unique(seen.group_of_row[row] * count + value, return_counts=True)
    group = pairs // count
    shared = np.unique(group[rows == seen.size[group]])
    return Tries(len(seen.group_of_row), float(seen.size[shared].sum()))
