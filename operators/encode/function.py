"""Encoder as a vectorized scalar function of Flink SQL."""

from __future__ import annotations

import secrets
from typing import Any

import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import FunctionContext, ScalarFunction, udf

from crenel.operators.beam_patches import end_at_once, leave_at_once
from crenel.operators.encode.arrow import keep_texts
from crenel.operators.encode.containment import ContainedEncoder
from crenel.operators.encode.encoder import EncodePlan
from crenel.operators.encode.metrics import register
from crenel.operators.encode.records import RecordsPlan
from crenel.operators.parent_watchdog import end_with_java
from crenel.operators.signed_errors import ErrorSigner


class EncodeFunction(ScalarFunction):  # type: ignore[misc]
    """Flink function that encodes each Arrow batch.

    Parameters
    ----------
    plan : inputs and settings of the encoder
    records : plan for the arguments read from records, which are then the first column; None: none is
    """

    def __init__(self, plan: EncodePlan, records: RecordsPlan | None = None) -> None:
        self._plan, self._records = plan, records
        self._signer = ErrorSigner()

    def open(self, function_context: FunctionContext) -> None:
        with self._signer.signing():
            end_with_java()
            end_at_once()
            keep_texts()
            self._encoder = ContainedEncoder(self._plan, self._records, secrets.randbits(62))
            if self._encoder.loads is not None:
                regions = self._plan.shards.regions is not None
                register(function_context.get_metric_group(), self._encoder.loads, regions=regions)

    def eval(self, *series: Any) -> pd.DataFrame:
        with self._signer.signing():
            keys, blocks = self._encoder.encode(*series)
            leave_at_once(len(blocks))
            return pd.DataFrame({"k": keys, "b": blocks})

    def is_deterministic(self) -> bool:
        # Block boundaries depend on the batch, and Flink must not evaluate the function twice.
        return False


def encode_function(plan: EncodePlan, records: RecordsPlan | None = None) -> Any:
    """Return the function ``crenel_encode(...)``, whose result is ``ROW<k INT, b BYTES>``.

    ``b`` is NULL on rows that carry no block.
    """
    result = DataTypes.ROW([DataTypes.FIELD("k", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.BYTES())])
    return udf(EncodeFunction(plan, records), result_type=result, func_type="pandas")
