"""Columns of text as Arrow has them: PyFlink would make a text of Python of each value, which encode does not need.

No setting leaves that out, so it is changed in the process that works, when encode opens. Such a column is a Series all
the same, whoever reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pandas.arrays import ArrowExtensionArray  # type: ignore[attr-defined]
from pyflink.fn_execution import coders

_KEPT = (pa.string(), pa.binary())


def keep_texts() -> None:
    """Have batches that are read from now on in this process keep columns of text and of bytes as Arrow has them."""
    module = coders.coder_impl
    if not isinstance(module.arrow_to_pandas, _Kept):
        module.arrow_to_pandas = _Kept(module.arrow_to_pandas)


class _Kept:
    """PyFlink's ``arrow_to_pandas``, of which other columns are made; how it is called is PyFlink's."""

    def __init__(self, others: Callable[..., list[pd.Series[Any]]]) -> None:
        self._others = others

    def __call__(
        self, timezone: Any, field_types: Sequence[Any], batches: Sequence[pa.RecordBatch]
    ) -> list[pd.Series[Any]]:
        (batch,) = batches
        others = [number for number, column in enumerate(batch.columns) if column.type not in _KEPT]
        types = [field_types[number] for number in others]
        made = iter(self._others(timezone, types, [batch.select(others)]) if others else ())
        return [
            pd.Series(ArrowExtensionArray(column), copy=False) if column.type in _KEPT else next(made)
            for column in batch.columns
        ]
