"""Values and bounds of a sample that single nobody out, for the hierarchies and domains of a proposal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.hierarchy import MISSING, OTHER
from crenel.anonymity.model.values import sql_type, texts
from crenel.evidence.profile.profile import Profile, codes_of, form_of_type
from crenel.evidence.profile.roles import Proposal

MOST_LISTED = 100
"""Maximum number of values of a column that a proposal lists."""

_FEW = 20
"""Maximum number of values of a quasi-identifier without a known name."""

_NEARLY_ALL = (0.005, 0.995)
"""Quantiles between which a proposed domain has at least its margin."""

_STEPS = 5
"""Minimum number of round steps in the range of a proposed domain."""

_MARGIN = 0.1
"""Margin of a proposed domain on both sides, as a share of the distance between the quantiles."""

_YEARS = 5
"""Number of years after the sample that a proposed domain of days holds."""


def completed(proposals: Sequence[Proposal], sample: pa.Table, profile: Profile) -> tuple[Proposal, ...]:
    """Return proposals with the values of short hierarchies and with round domains.

    A value is listed if at least ``profile.k`` persons have it. A bound is a round number outside nearly all values,
    and never a value that fewer persons have. A column whose values are too many to list is dropped.

    Parameters
    ----------
    sample : the profiled rows, without dictionary encoding
    """
    subject = next((each.column for each in proposals if each.role == "subject"), None)
    persons = np.arange(sample.num_rows) if subject is None else codes_of(sample.column(subject).combine_chunks())[0]
    return tuple(_completed(each, sample.column(each.column), persons, profile.k) for each in proposals)


def _completed(proposal: Proposal, column: pa.ChunkedArray, persons: NDArray[np.int64], k: int) -> Proposal:
    if proposal.is_open:
        proposal = _settled(proposal, column)
    if proposal.role != "quasi_identifier" or proposal.domain is not None:
        return proposal
    if proposal.hierarchy == "file":
        values, further = common_values(column, persons, k)
        if values and len(values) + further <= MOST_LISTED:
            return replace(proposal, hierarchy="values", values=values, further=further)
        if not _is_number(column):
            reason = f"{proposal.reason}; without groups of its values nothing of it can be published"
            return replace(proposal, role="drop", reason=reason, hierarchy=None)
        proposal = replace(proposal, hierarchy=None)
    if proposal.hierarchy == "dates":
        days = pc.utf8_slice_codeunits(column, 0, 10) if pa.types.is_string(column.type) else column
        *bounds, outside = round_days(days.cast(pa.date32()).drop_null().to_numpy())
    elif proposal.hierarchy in (None, "numbers"):
        numbers = pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column
        *bounds, outside = round_bounds(numbers.cast(pa.float64()).drop_null().to_numpy(), k)
    else:
        return proposal
    return replace(proposal, domain=(bounds[0], bounds[1]), outside=outside)


def _settled(proposal: Proposal, column: pa.ChunkedArray) -> Proposal:
    """Return the strictest role that publishes something of a column without a clear role."""
    if pa.types.is_nested(column.type) or len(column.unique()) > _FEW:
        return replace(proposal, role="drop", is_open=False)
    reason = f"{proposal.reason}; it has few values, which an attacker may know"
    return replace(proposal, role="quasi_identifier", reason=reason, hierarchy="file", is_open=False)


def _is_number(column: pa.ChunkedArray) -> bool:
    return form_of_type(sql_type(column.type)) in ("whole", "number")


def common_values(column: pa.ChunkedArray, persons: NDArray[np.int64], k: int) -> tuple[tuple[str, ...], int]:
    """Return the values that at least k persons have, as sorted text, and the number of further values.

    Parameters
    ----------
    persons : (rows,) number of the person of each row
    """
    codes, distinct = codes_of(texts(column.combine_chunks()))
    pairs = np.unique(np.column_stack((codes, persons))[codes >= 0], axis=0)
    counts = np.bincount(pairs[:, 0], minlength=len(distinct)).tolist()
    reserved = {"", "*", OTHER, MISSING}
    known = zip(distinct.to_pylist(), counts, strict=True)
    common = sorted(text for text, count in known if count >= k and text not in reserved)
    return tuple(common), len(distinct) - len(common)


def round_bounds(numbers: NDArray[np.float64], k: int) -> tuple[str, str, int]:
    """Return a round lower and upper bound, and how many numbers lie outside.

    Bounds are multiples of 1, 2 or 5 times a power of 10. Apart from 0, none is a number that fewer than k rows have.
    """
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return "0", "1", 0
    low, high = np.quantile(numbers, _NEARLY_ALL)
    width = float(high - low) or max(abs(float(high)), 1.0)
    exponent = math.floor(math.log10(width / _STEPS))
    digit = max(digit for digit in (1, 2, 5) if digit * 10.0**exponent <= width / _STEPS or digit == 1)

    def bound(number: int) -> float:
        return float(f"{number * digit}e{exponent}")

    first = math.floor((low - _MARGIN * width) / bound(1))
    last = math.ceil((high + _MARGIN * width) / bound(1))
    first = 0 if low >= 0 > first else first
    while first and 0 < np.count_nonzero(numbers == bound(first)) < k:
        first -= 1
    while last and 0 < np.count_nonzero(numbers == bound(last)) < k:
        last += 1
    outside = np.count_nonzero((numbers < bound(first)) | (numbers > bound(last)))
    return f"{bound(first):.15g}", f"{bound(last):.15g}", int(outside)


def round_days(days: NDArray[Any]) -> tuple[str, str, int]:
    """Return the first day of a year and the last day of a later one, and how many days lie outside."""
    numbers = days.astype("datetime64[D]").astype(np.int64)
    if not len(numbers):
        return "2000-01-01", "2049-12-31", 0
    first, last = (date(1970, 1, 1) + timedelta(int(each)) for each in np.quantile(numbers, _NEARLY_ALL))
    bounds = date(max(first.year - 1, 1), 1, 1), date(min(last.year + _YEARS, 9999), 12, 31)
    ordinals = [(each - date(1970, 1, 1)).days for each in bounds]
    outside = np.count_nonzero((numbers < ordinals[0]) | (numbers > ordinals[1]))
    return bounds[0].isoformat(), bounds[1].isoformat(), int(outside)
