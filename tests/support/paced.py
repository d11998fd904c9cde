"""A job as ``flink run`` starts it, whose source is as slow as a live one: its query may call ``paced(column)``.

``CRENEL_TEST_RATE`` in the environment says how slow: rows a second, 5,000 without it; 0 is as fast as it goes. With
``CRENEL_TEST_VERSION=2`` it is a later version of the job, with one more output before all the others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import udf

from crenel.jobs import anonymize
from crenel.jobs.pipeline import build as pipeline

_environment, _outputs = anonymize.cluster_environment, pipeline.outputs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``crenel.jobs.anonymize.main``."""
    anonymize.cluster_environment = _with_function(int(os.environ.get("CRENEL_TEST_RATE", "5000")))
    later = os.environ.get("CRENEL_TEST_VERSION") == "2"
    pipeline.outputs = _with_one_more if later else _outputs
    try:
        return anonymize.main(arguments)
    finally:
        anonymize.cluster_environment, pipeline.outputs = _environment, _outputs


def _with_one_more(*arguments: Any, **named: Any) -> dict[str, Any]:
    found = _outputs(*arguments, **named)
    return {"more": found["audit"], **found}


def _with_function(rate: int) -> Callable[..., Any]:
    def wait(column: pd.Series) -> pd.Series:  # in here, it goes to the workers by value
        import time

        if rate:
            time.sleep(len(column) / rate)
        return column

    def made(*arguments: Any) -> Any:
        tables = _environment(*arguments)
        tables.create_temporary_system_function("paced", udf(wait, result_type=DataTypes.BIGINT(), func_type="pandas"))
        return tables

    return made


if __name__ == "__main__":
    sys.exit(main())
