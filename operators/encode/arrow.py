"""Arrow text columns without conversion to Python strings, which PyFlink makes and encode does not need.

No setting prevents the conversion, so opening encode patches it in the worker process. Such a column is still a Series
for every reader.
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
    """Keep text and bytes columns of future batches in this process in Arrow format."""
    module = coders.coder_impl
    if not isinstance(module.arrow_to_pandas, _Kept):
        module.arrow_to_pandas = _Kept(module.arrow_to_pandas)


class _Kept:
    """Wrapper of PyFlink's ``arrow_to_pandas``, which still converts all other columns.

    PyFlink defines the signature of the call.
    """

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
