"""Encoder as a vectorized scalar function of Flink SQL."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import FunctionContext, ScalarFunction, udf

from crenel.anonymity.compiled.notice import compilation_timer
from crenel.anonymity.regions.loads import Loads
from crenel.operators.encode.containment import ContainedEncoder
from crenel.operators.encode.records import EvolvingFields, RecordArguments, UnknownFields
from crenel.operators.metrics import SCALE, Metrics
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.signed_errors import ErrorSigner
from crenel.operators.worker import flush_results, keep_texts_in_arrow, prepare_worker


class EncodeFunction(ScalarFunction):  # type: ignore[misc]
    """Flink function that encodes each Arrow batch.

    Parameters
    ----------
    plan : inputs and settings of the encoder
    records : arguments read from records, which are then the first column; None: none is
    """

    def __init__(self, plan: AnonymizationPlan, records: RecordArguments | None = None) -> None:
        self._plan, self._records = plan, records
        self._signer = ErrorSigner()
        self._count_unknown: Callable[[], None] | None = None

    def open(self, function_context: FunctionContext) -> None:
        with self._signer.signing():
            prepare_worker()
            compilation_timer()  # the metric of the shards covers the encoder too
            keep_texts_in_arrow()
            self._encoder = ContainedEncoder(self._plan, self._records, secrets.randbits(62))
            fields = None if self._records is None else self._records.fields
            if self._encoder.loads is None and not isinstance(fields, EvolvingFields):
                return
            metrics = Metrics(function_context.get_metric_group())
            if self._encoder.loads is not None:
                register_loads(metrics, self._encoder.loads, regions=self._plan.shards.regions is not None)
            if isinstance(fields, EvolvingFields):
                self._count_unknown = register_unknown(metrics, fields.unknown)

    def eval(self, *series: Any) -> pd.DataFrame:
        with self._signer.signing():
            keys, blocks = self._encoder.encode(*series)
            if self._count_unknown is not None:
                self._count_unknown()
            flush_results(len(blocks))
            return pd.DataFrame({"k": keys, "b": blocks})

    def is_deterministic(self) -> bool:
        # Block boundaries depend on the batch, and Flink must not evaluate the function twice.
        return False


def register_unknown(metrics: Metrics, unknown: UnknownFields) -> Callable[[], None]:
    """Register metrics of fields that the configuration does not know.

    Parameters
    ----------
    metrics : of the encoder
    unknown : counts, which the metrics read

    Returns
    -------
    A function to call after each batch: it registers the counter of each new field.
    """
    counters: dict[str, Any] = {}
    counted: dict[str, int] = {}
    metrics.gauge("unknown_fields", lambda: len(unknown.by_field))

    def count() -> None:
        for name, records in (("", unknown.records), *unknown.by_field.items()):
            if records > counted.get(name, 0):
                if name not in counters:
                    label = f"records_with_unknown_field_{name}" if name else "records_with_unknown_fields"
                    counters[name] = metrics.counter(label)
                counters[name].inc(records - counted.get(name, 0))
                counted[name] = records

    return count


def register_loads(metrics: Metrics, loads: Loads, *, regions: bool) -> None:
    """Register gauges for the load of the shards.

    Parameters
    ----------
    metrics : of the encoder
    loads : of the shards; the gauges read it
    regions : whether shards are regions
    """
    metrics.gauge(f"fullest_{'region' if regions else 'shard'}_x1000", lambda: round(SCALE * loads.fullest))
    for shard in range(len(loads)):
        metrics.gauge(f"share_of_shard_{shard}_x1000", partial(_share, loads, shard))


def _share(loads: Loads, shard: int) -> int:
    return round(SCALE * loads.share(shard))


def encode_function(plan: AnonymizationPlan, records: RecordArguments | None = None) -> Any:
    """Return the function of encode, whose result is ``ROW<k INT, b BYTES>``.

    ``b`` is NULL on rows that carry no block.
    """
    result = DataTypes.ROW([DataTypes.FIELD("k", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.BYTES())])
    return udf(EncodeFunction(plan, records), result_type=result, func_type="pandas")
