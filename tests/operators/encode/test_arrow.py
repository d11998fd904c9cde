"""Columns of text come as Arrow has them, through the coder with which PyFlink reads a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyflink.fn_execution import coders
from pyflink.table import DataTypes
from pyflink.table.utils import arrow_to_pandas

from crenel.operators.encode.arrow import keep_texts
from crenel.operators.encode.columns import as_arrow

FIELDS = {
    "whole": (DataTypes.INT(), pa.array([1, None], pa.int32())),
    "text": (DataTypes.STRING(), pa.array(["a", None])),
    "bytes": (DataTypes.BYTES(), pa.array([b"\xff", None])),
    "time": (DataTypes.TIMESTAMP(3), pa.array([0, None], pa.timestamp("ms"))),
}


@pytest.fixture(autouse=True)
def as_pyflink_has_it() -> Iterator[None]:
    module = coders.coder_impl
    before, module.arrow_to_pandas = module.arrow_to_pandas, arrow_to_pandas
    yield
    module.arrow_to_pandas = before


def read(*names: str) -> list[pd.Series[Any]]:
    kinds = DataTypes.ROW([DataTypes.FIELD(name, FIELDS[name][0]) for name in names])
    schema = pa.schema([(name, FIELDS[name][1].type) for name in names])
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, schema) as stream:
        stream.write_batch(pa.record_batch([FIELDS[name][1] for name in names], schema=schema))
    coder = coders.ArrowCoder(schema, kinds, "UTC").get_impl()
    series: list[pd.Series[Any]] = coder.decode(written.getvalue().to_pybytes())
    return series


def test_texts_and_bytes_stay_with_arrow_and_all_else_is_as_before() -> None:
    before = read(*FIELDS)
    assert [str(series.dtype) for series in before] == ["float64", "object", "object", "datetime64[ms]"]
    keep_texts()
    after = read(*FIELDS)
    assert [str(series.dtype) for series in after] == [
        "float64",
        "string[pyarrow]",
        "binary[pyarrow]",
        "datetime64[ms]",
    ]
    for name, old, new in zip(FIELDS, before, after, strict=True):
        assert new.isna().tolist() == old.isna().tolist() == [False, True]
        assert new[0] == old[0]
        if name in ("text", "bytes"):
            assert as_arrow(new, FIELDS[name][1].type).equals(FIELDS[name][1])


def test_a_batch_of_texts_alone_and_one_without_are_read() -> None:
    keep_texts()
    keep_texts()  # as by each function that opens in a process
    assert as_arrow(read("text")[0], pa.string()).to_pylist() == ["a", None]
    assert read("whole")[0][0] == 1
