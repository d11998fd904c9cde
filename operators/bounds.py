"""Ends of published intervals, limited to the type of their column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.errors import InvariantError

_EXACT = 2.0**53
_NOT_WRITTEN = "the type of a column does not hold a published number; nothing was emitted"


def within(
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    extremes: tuple[float, float] | None,
    *,
    is_limited: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return interval ends that the type of their column holds.

    Without a declared domain, noise and rounding may move ends beyond the type, and such ends are clipped to it.

    Parameters
    ----------
    extremes : minimum and maximum of the type; None: no limit
    is_limited : whether a declared domain limits the ends already

    Raises
    ------
    InvariantError
        An end within the domain is beyond the type. Flink's CAST of such a number wraps around for an integer, and
        gives NULL for a DECIMAL.
    """
    if extremes is None:
        return lower, upper
    least, most = extremes
    if is_limited:
        if (lower < least).any() or (upper > most).any():
            raise InvariantError(_NOT_WRITTEN)
        return lower, upper
    return np.clip(lower, least, most), np.clip(upper, least, most)


def integer_bounds(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> tuple[list[int], list[int]]:
    """Return the published interval ends of an integer column.

    Values are stored as float64, which is exact below 2**53. Larger ends move outwards by one step of float64, so that
    the interval still covers the rounded integer; they stay within int64.

    Parameters
    ----------
    lower, upper : (releases,) finite
    """
    return _whole(np.floor(lower), -np.inf), _whole(np.ceil(upper), np.inf)


def _whole(ends: NDArray[np.float64], outwards: float) -> list[int]:
    ends = np.where(np.abs(ends) >= _EXACT, np.nextafter(ends, outwards), ends)
    most = np.iinfo(np.int64)
    above, below = ends >= 2.0**63, ends < -(2.0**63)
    integers = np.where(above | below, 0, ends).astype(np.int64)
    integers[above], integers[below] = most.max, most.min
    return list(integers.tolist())


def as_written(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return published numbers in the type of their column.

    Rounding to the nearest number of a type keeps the order of numbers. So an interval still contains its members,
    which are numbers of the type.

    Parameters
    ----------
    numbers : int64 or float64, null where missing

    Raises
    ------
    InvariantError
        The type does not hold a number.
    """
    try:
        written = numbers.cast(kind, safe=False)
    except pa.ArrowInvalid:  # its message has the number
        raise InvariantError(_NOT_WRITTEN) from None
    back, exact = (column.drop_null().cast(numbers.type, safe=False).to_numpy() for column in (written, numbers))
    if pa.types.is_decimal(kind):
        alike = np.abs(back - exact) <= 10.0**-kind.scale * 0.500001 + np.abs(exact) * 2.0**-52
    else:
        with np.errstate(over="ignore"):
            alike = np.isfinite(back) & (back == exact.astype(kind.to_pandas_dtype()))
        if pa.types.is_integer(kind):
            alike &= back == exact
    if written.null_count != numbers.null_count or not alike.all():
        raise InvariantError(_NOT_WRITTEN)
    return written
