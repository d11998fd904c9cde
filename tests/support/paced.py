"""A job as ``flink run`` starts it, whose source is as slow as a live one: its query may call ``paced(column)``.

With the environment variable ``CRENEL_TEST_VERSION=2`` it is a later version of the job, with one more output before
all the others.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import udf

from jobs import anonymize
from jobs.wiring import pipeline

ROWS_A_SECOND = 5000


def _wait(column: pd.Series) -> pd.Series:
    time.sleep(len(column) / ROWS_A_SECOND)
    return column


def _with_function(make: Any) -> Any:
    def made(*arguments: Any) -> Any:
        tables = make(*arguments)
        paced = udf(_wait, result_type=DataTypes.BIGINT(), func_type="pandas")
        tables.create_temporary_system_function("paced", paced)
        return tables

    return made


if __name__ == "__main__":
    anonymize.cluster_environment = _with_function(anonymize.cluster_environment)
    if os.environ.get("CRENEL_TEST_VERSION") == "2":
        outputs = pipeline.outputs
        pipeline.outputs = lambda found: {"more": outputs(found)["audit"], **outputs(found)}
    sys.exit(anonymize.main())
