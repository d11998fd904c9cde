"""64-bit codes of subjects and sensitive values, and even division of rows by their codes.

A code is the same in every worker and after every restart: it does not depend on the process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crenel.state.columns import NO_VALUE

NULL = NO_VALUE
"""Code of a missing value."""

_BOOLEAN = np.array([0x5B5C_6D8F_0E1D_7A31, 0xA96D_42B5_33F8_90C7], np.uint64)  # false, true
_STEP = np.uint64(0x9E37_79B9_7F4A_7C15)
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)


def text_codes(values: NDArray[Any], key: str, *, repeated: bool) -> NDArray[np.uint64]:
    """Return the keyed SipHash-2-4 of each string in UTF-8, finalized by ``pandas.util.hash_array``.

    Parameters
    ----------
    values : (rows,) str; None where a value is missing, whose code is undefined
    key : ``crenel.anonymity.model.secret.SubjectKey.hash_key``
    repeated : hash each distinct string once, for frequent repetitions; the codes do not change
    """
    return pd.util.hash_array(values, encoding="utf-8", hash_key=key, categorize=repeated)


def real_codes(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return codes of float64 values; 0.0 and -0.0 share one, and so do all NaNs."""
    canonical = values + 0.0  # -0.0 + 0.0 is 0.0
    canonical[np.isnan(canonical)] = np.nan
    return canonical.view(np.uint64)


def integer_codes(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return codes of int64 values: their bits."""
    return values.view(np.uint64)


def boolean_codes(values: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return codes of Boolean values."""
    return _BOOLEAN[values.astype(np.intp)]


def code_of(text: str, form: str) -> np.uint64 | None:
    """Return the code of the number or Boolean written as ``text``; None where there is no such value."""
    try:
        if form == "integer":
            return np.uint64(integer_codes(np.array([int(text)], np.int64))[0])
        if form == "number":
            return np.uint64(real_codes(np.array([float(text)]))[0])
    except (ValueError, OverflowError):
        return None
    return _BOOLEAN[["false", "true"].index(text.lower())] if text.lower() in ("false", "true") else None


def combined(codes: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return one code per row from the codes of its columns, at least one."""
    total = np.full(len(codes[0]), _STEP)
    for column in codes:
        total ^= column
        total *= np.uint64(0xD6E8_FEB8_6659_FD93)
        total ^= total >> _HALF
    return total


def slices(codes: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Divide rows into ``count`` even slices by their codes: 0 to ``count - 1`` for each.

    The codes are mixed first (splitmix64), so that codes in one slice still differ in all of their bits.
    """
    mixed = codes + _STEP
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58_476D_1CE4_E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D0_49BB_1331_11EB)
    mixed >>= _HALF
    mixed &= _LOW
    mixed *= np.uint64(count)
    mixed >>= _HALF
    return mixed.astype(np.int64)
