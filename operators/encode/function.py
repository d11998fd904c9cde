"""Encoder as a vectorized scalar function of Flink SQL."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

import pandas as pd
from pyflink.metrics import MetricGroup
from pyflink.table import DataTypes
from pyflink.table.udf import FunctionContext, ScalarFunction, udf

from crenel.anonymity.regions.loads import Loads
from crenel.operators.encode.containment import ContainedEncoder
from crenel.operators.encode.encoder import EncodePlan
from crenel.operators.encode.records import RecordsPlan
from crenel.operators.metrics import SCALE, Metrics
from crenel.operators.signed_errors import ErrorSigner
from crenel.operators.worker import flush_results, keep_texts_in_arrow, prepare_worker


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
            prepare_worker()
            keep_texts_in_arrow()
            self._encoder = ContainedEncoder(self._plan, self._records, secrets.randbits(62))
            if self._encoder.loads is not None:
                regions = self._plan.shards.regions is not None
                register_loads(function_context.get_metric_group(), self._encoder.loads, regions=regions)

    def eval(self, *series: Any) -> pd.DataFrame:
        with self._signer.signing():
            keys, blocks = self._encoder.encode(*series)
            flush_results(len(blocks))
            return pd.DataFrame({"k": keys, "b": blocks})

    def is_deterministic(self) -> bool:
        # Block boundaries depend on the batch, and Flink must not evaluate the function twice.
        return False


def register_loads(group: MetricGroup, loads: Loads, *, regions: bool) -> None:
    """Register gauges for the load of the shards.

    Parameters
    ----------
    group : the encoder's metric group
    loads : of the shards; the gauges read it
    regions : whether shards are regions
    """
    metrics = Metrics(group)
    metrics.gauge(f"fullest_{'region' if regions else 'shard'}_x1000", lambda: round(SCALE * loads.fullest))
    for shard in range(len(loads)):
        metrics.gauge(f"share_of_shard_{shard}_x1000", partial(_share, loads, shard))


def _share(loads: Loads, shard: int) -> int:
    return round(SCALE * loads.share(shard))


def encode_function(plan: EncodePlan, records: RecordsPlan | None = None) -> Any:
    """Return the function of encode, whose result is ``ROW<k INT, b BYTES>``.

    ``b`` is NULL on rows that carry no block.
    """
    result = DataTypes.ROW([DataTypes.FIELD("k", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.BYTES())])
    return udf(EncodeFunction(plan, records), result_type=result, func_type="pandas")
