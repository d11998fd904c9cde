"""Search of outputs, files written from them, snapshots and messages for values of records that are not published.

Each record has values of its own, markers such as ``~0012~di``: its number and the column. So each marker that is
found names its record. A marker has eight bytes, so that a number can be one too.
"""

from __future__ import annotations

import io
import pickle
import re
import traceback
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import crenel
from crenel.copies import is_plain
from tests.crenel.stream import ALGORITHMS
from tests.support.ages import write_ages

ROWS = 120
MARKER = re.compile(rb"~(\d{4})~([a-z]{2})")
NEVER = {"su", "qc", "dr", "hi", "me"}
"""Columns whose values are in no output: subject, quasi-identifier, dropped, beneath nulls, and in metadata."""


def markers(column: str) -> list[str]:
    return [f"~{row:04}~{column}" for row in range(ROWS)]


def number(column: str, of: str) -> pa.Array:
    return pa.array(np.frombuffer("".join(markers(column)).encode(), of))


def coded(column: str, index: pa.DataType, values: pa.DataType, *, ordered: bool = False) -> pa.DictionaryArray:
    """Return markers by a dictionary that has them in descending order."""
    descending = pa.array(range(ROWS - 1, -1, -1), index)
    return pa.DictionaryArray.from_arrays(descending, pa.array(markers(column)[::-1], values), ordered=ordered)


def hidden(column: pa.Array) -> pa.Array:
    """Return a column of which each value is missing, and stands beneath its null."""
    bits = pa.py_buffer(bytes(ROWS // 8 + 1))
    if pa.types.is_struct(column.type):
        return pa.Array.from_buffers(column.type, ROWS, [bits], children=[column.field(0)])
    if pa.types.is_list(column.type):
        return pa.Array.from_buffers(column.type, ROWS, [bits, column.buffers()[1]], children=[column.values])
    return pa.Array.from_buffers(column.type, ROWS, [bits, *column.buffers()[1:]])


def table() -> pa.Table:
    """Return records in which each role and type of column has a marker; every fortieth is rejected."""
    offsets, values = pa.array(range(ROWS + 1), pa.int32()), ",".join(markers("me"))
    word, text = pa.dictionary(pa.int16(), pa.string()), pa.string()
    noted = pa.field("word", word, metadata={"values": values})
    required = pa.field("word", word, nullable=False)
    columns = {
        "subject": coded("su", pa.int32(), text),
        "age": number("ag", "<f8"),
        "area": pa.array(
            [f"unknown {m}" if i % 40 == 9 else m for i, m in enumerate(markers("qc"))]
        ).dictionary_encode(),
        "diagnosis": coded("se", pa.int16(), text),
        "dropped": coded("dr", pa.int16(), text),
        "text": pa.array(markers("tx")),
        "large": pa.array(markers("lt"), pa.large_string()),
        "bytes": pa.array([marker.encode() for marker in markers("bi")], pa.binary()),
        "fixed": pa.array([marker.encode() for marker in markers("fb")], pa.binary(8)),
        "whole": number("in", "<i8"),
        "real": number("fl", "<f8"),
        "word": coded("wo", pa.int8(), pa.large_string()),
        "rank": coded("ra", pa.int64(), text, ordered=True),
        "words": pa.ListArray.from_arrays(offsets, coded("ws", pa.int16(), text), pa.list_(noted)),
        "pairs": pa.StructArray.from_arrays([coded("pa", pa.int16(), text), pa.array(markers("pt"))], ["a", "b"]),
        "map": pa.MapArray.from_arrays(offsets, pa.array(markers("mk")), coded("mv", pa.int16(), text)),
        "couple": pa.FixedSizeListArray.from_arrays(coded("co", pa.int16(), text), 1),
        "blobs": pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), pa.array(markers("bl")).cast(pa.binary())),
        "no_text": hidden(pa.array(markers("hi"))),
        "no_number": hidden(number("hi", "<i8")),
        "no_word": hidden(pa.StructArray.from_arrays([coded("hi", pa.int16(), text)], fields=[required])),
        "no_list": hidden(pa.ListArray.from_arrays(offsets, pa.array(markers("hi")))),
    }
    fields = [pa.field(name, column.type, metadata={"values": values}) for name, column in columns.items()]
    return pa.table(list(columns.values()), pa.schema(fields, {"values": values}))


TABLE = table()
ROLES = ("subject", "age", "area", "diagnosis", "dropped")


def settings(
    algorithm: crenel.Algorithm, names: Collection[str] = TABLE.column_names, **others: Any
) -> crenel.Settings:
    return crenel.Settings(
        policy=crenel.Policy(
            subject="subject",
            quasi_identifiers={
                "age": crenel.Numeric((0, 1e300)),
                "area": crenel.Categorical({marker: ["*"] for marker in markers("qc")}),
            },
            sensitive=["diagnosis"],
            passthrough=[name for name in names if name not in ROLES],
            drop=["dropped"],
        ),
        privacy=crenel.Privacy(k=3, l=2),
        algorithm=algorithm,
        seed=2,
        subject_key=b"a key of sixteen bytes or more",
        **others,
    )


NEAREST = settings(crenel.Nearest(crenel.Delay(tuples=20)))


def passing(name: str) -> crenel.Settings:
    """Return settings that pass one column through."""
    policy = crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 99))}, passthrough=[name])
    return replace(NEAREST, policy=policy, privacy=crenel.Privacy(k=3))


def memory(array: pa.Array) -> Iterator[bytes]:
    """Yield all memory of an array, also what its offset and its nulls hide."""
    yield from (buffer.to_pybytes() for buffer in array.buffers() if buffer is not None)
    if pa.types.is_dictionary(array.type):
        yield from memory(array.dictionary)
    elif pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from memory(array.field(i))
    elif pa.types.is_nested(array.type):
        yield from memory(array.values)


def written(found: pa.Table) -> Iterator[bytes]:
    """Yield a table in memory and as each file that Arrow writes."""
    yield found.schema.serialize().to_pybytes()
    yield repr(found.schema).encode()
    yield from (part for column in found.columns for chunk in column.chunks for part in memory(chunk))
    yield pickle.dumps(found)
    for write in (pa.ipc.new_file, pa.ipc.new_stream):
        sink = pa.BufferOutputStream()
        with write(sink, found.schema) as writer:
            writer.write_table(found)
        yield sink.getvalue().to_pybytes()
    file = io.BytesIO()
    pa.feather.write_feather(found, file, compression="uncompressed")
    yield file.getvalue()
    file = io.BytesIO()
    pa.parquet.write_table(found, file, compression="none")
    yield file.getvalue()
    file = io.BytesIO()
    plain = [name for name in found.column_names if is_plain(found.schema.field(name).type)]
    pa.csv.write_csv(found.select(plain), file)
    yield file.getvalue()


def forms(found: Any) -> Iterator[bytes]:
    """Yield what a program can make of an output of any kind."""
    if isinstance(found, pa.Table):
        yield pickle.dumps(found.to_pandas())
        yield from written(found)
    elif isinstance(found, pd.DataFrame):
        yield from (pickle.dumps(found), found.to_csv().encode(), repr(found.attrs).encode())
        yield found.to_parquet(compression=None)
        yield from written(pa.Table.from_pandas(found))
    else:
        yield pickle.dumps(found)
        for write in (found.write_ipc, found.write_ipc_stream, found.write_parquet, found.serialize):
            file = io.BytesIO()
            write(file, **({"compression": "uncompressed"} if "ipc" in write.__name__ else {}))
            yield file.getvalue()
        yield from written(found.to_arrow())


def rows_of(content: bytes) -> set[int]:
    """Return the records whose markers stand in bytes, and refuse markers that stand nowhere."""
    found = {(int(row), column.decode()) for row, column in MARKER.findall(content)}
    assert not {column for _, column in found} & NEVER
    return {row for row, _ in found}


def check(result: crenel.Result) -> set[int]:
    """Search outputs for markers of records that are not published; return the published ones."""
    released = numbers(result.released)
    for output in (result.released, result.audit, result.suppressed, result.rejected, *result.further.values()):
        for content in forms(output):
            assert rows_of(content) <= released
    assert not rows_of(repr(result.summary).encode())
    return released


def numbers(found: Any) -> set[int]:
    return set(map(int, found["row"].to_pylist() if isinstance(found, pa.Table) else found["row"]))


@pytest.mark.parametrize("algorithm", ["castle", "suhdsa", "mondrian"])
def test_outputs_hold_values_of_published_records_alone(algorithm: str) -> None:
    result = crenel.anonymize(TABLE, settings(ALGORITHMS[algorithm]), row_numbers=True, repairs=algorithm != "mondrian")
    released = check(result)
    assert {9, 49, 89} == numbers(result.rejected)
    assert released
    # The search finds what is published.
    assert rows_of(b"".join(written(result.released))) == released


def test_a_stream_publishes_and_keeps_nothing_of_others() -> None:
    stream = crenel.open_stream(NEAREST, row_numbers=True)
    people, pushed, gone = TABLE["subject"].to_pylist(), 0, set[int]()
    for rows in (45, 7, 48):
        result = stream.push(TABLE.slice(pushed, rows))
        pushed += rows
        gone |= check(result) | numbers(result.suppressed) | numbers(result.rejected)
        buffered = {*range(pushed)} - gone
        # A block keeps the quasi-identifiers of its tuples until the last of them has departed.
        assert rows_of(stream.snapshot().replace(b"~ag", b"")) == buffered
    kept = {*sorted(buffered)[:2]}
    check(stream.forget([people[row] for row in buffered - kept]))
    found = stream.snapshot()
    assert rows_of(found.replace(b"~ag", b"")) == kept
    assert not rows_of(found) & (buffered - kept)
    restored = crenel.open_stream(NEAREST, row_numbers=True, snapshot=stream.snapshot())
    for each in (stream, restored):
        result = each.finish()
        assert numbers(result.suppressed) == kept
        assert not check(result)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_hold_values_of_published_records_alone(kind: str) -> None:
    data: Any
    aged = TABLE.set_column(1, "age", pa.array(range(ROWS)))  # noise needs whole numbers
    if kind == "pandas":
        data = aged.drop(["map", "couple"]).to_pandas()
        data.attrs = {"values": markers("me")}
    else:
        data = polars.from_arrow(aged.drop(["map", "couple", "no_word"]))
        every = polars.Enum(markers("wo"))
        data = data.with_columns(polars.col("word").cast(every), polars.col("words").cast(polars.List(polars.String)))
        data = data.with_columns(polars.col("words").cast(polars.List(polars.Enum(markers("ws")))))
    sampling = crenel.SamplingAndNoise(sample_rate=0.7, phi=100)
    made = settings(crenel.Castle(crenel.Delay(tuples=20)), data.columns, sampling_and_noise=sampling)
    attributes = {"age": crenel.Numeric((0, 200))}
    policy = replace(made.policy, quasi_identifiers=attributes, drop=["dropped", "area"])
    made = replace(made, policy=policy)
    result = crenel.anonymize(data, made, row_numbers=True)
    assert result.summary.sampled_out
    released = check(result)
    assert released
    if kind == "polars":
        assert isinstance(result.released["word"].dtype, polars.Categorical)
    else:
        assert result.released["rank"].cat.ordered
        for name in ("word", "rank"):  # in the order of the data
            assert list(result.released[name].cat.categories) == sorted(result.released[name], reverse=True)


def test_dictionaries_of_noisy_cells_hold_published_values_alone(tmp_path: Path) -> None:
    """Refuse even a category without rows, which would show with any epsilon that a person is in the data."""
    write_ages(tmp_path / "cells.yaml", 50)
    ages = pa.array([10.0] * (ROWS - 1) + [70.0])
    values = pa.array(["flu", "cold"] * (ROWS // 2 - 1) + ["flu", "only one"]).dictionary_encode()
    data = pa.table({"subject": TABLE["subject"], "age": ages, "diagnosis": values})
    policy = replace(NEAREST.policy, quasi_identifiers={"age": crenel.Numeric((0, 99))}, passthrough=[], drop=[])
    cells = crenel.Cells(partition="cells.yaml", epsilon=1, delta=1e-6, release="noisy")
    made = replace(NEAREST, policy=policy, algorithm=cells, folder=tmp_path)
    found = crenel.anonymize(data.to_pandas(), made).released["diagnosis"]
    assert sorted(found.cat.categories) == ["cold", "flu"]
    assert b"only one" not in pickle.dumps(found)


def test_an_ordered_dictionary_keeps_its_order_however_its_batches_are_made() -> None:
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    order = ["low", "middle", "high", "highest"]
    parts = [["low", "high"], ["middle", "high", "highest"], ["low", "highest"]]
    ranks = [
        pa.DictionaryArray.from_arrays(pa.array([*range(len(of))] * 6, pa.int8()), of, ordered=True) for of in parts
    ]
    made = passing("rank")
    tables = [pa.table({"age": pa.array(range(len(of))), "rank": of}) for of in ranks]
    stream = crenel.open_stream(made)
    for each in tables:
        found = stream.push(each).released["rank"]
        assert found.type == kind
        for chunk in found.chunks:
            assert chunk.dictionary.to_pylist() == [rank for rank in order if rank in chunk.to_pylist()]
        stream = crenel.open_stream(made, snapshot=stream.snapshot())
    reader = pa.RecordBatchReader.from_batches(
        tables[0].schema, [batch for each in tables for batch in each.to_batches()]
    )
    assert crenel.anonymize(reader, made).released["rank"].chunk(0).dictionary.to_pylist() == order


def test_an_ordered_dictionary_keeps_its_order_across_pushes() -> None:
    # The dictionary of the last two pushes together would not say which value is the lower one.
    values, ages = [*["low", "high"] * 4, "high", "low"], [0, 50, 2, 99, 97, 52, 95, 90, 51, 1]
    stream, found = crenel.open_stream(passing("rank"), row_numbers=True), []
    for start, end, of in ((0, 8, ["low", "high"]), (8, 9, ["high"]), (9, 10, ["low"])):
        place = pa.array([of.index(value) for value in values[start:end]], pa.int8())
        rank = pa.DictionaryArray.from_arrays(place, of, ordered=True)
        found.append(stream.push(pa.table({"age": ages[start:end], "rank": rank})).released)
    released = pa.concat_tables([*found, stream.finish().released])
    rows = released["row"].to_pylist()
    assert rows != sorted(rows)
    assert released["rank"].to_pylist() == [values[row] for row in rows]
    assert released["rank"].chunk(len(found)).dictionary.to_pylist() == ["low", "high"]


NOT_COPIED = {
    "union": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array(["a", "b"])]),
    "dictionary of structs": pa.DictionaryArray.from_arrays([0, 1], pa.array([{"a": "a"}, {"a": "b"}])),
    "list of an ordered dictionary": pa.ListArray.from_arrays(
        [0, 1, 2], pa.DictionaryArray.from_arrays([0, 1], ["a", "b"], ordered=True)
    ),
}
if hasattr(pa, "RunEndEncodedArray"):  # from Arrow 12 on
    NOT_COPIED["runs"] = pa.RunEndEncodedArray.from_arrays([1, 2], ["a", "b"])


@pytest.mark.parametrize("name", NOT_COPIED)
def test_a_type_whose_rows_cannot_be_copied_is_refused(name: str) -> None:
    data = pa.table({"age": [1, 2], "other": NOT_COPIED[name]})
    with pytest.raises(crenel.ConfigError, match=r"data: 'other' is of type .*cast the column to text"):
        crenel.anonymize(data, passing("other"))


def _mixed() -> None:
    frame = pd.DataFrame({"age": pd.Series([1, *markers("in")], dtype=object)})
    crenel.anonymize(frame, NEAREST)


def _mixed_text() -> None:
    crenel.profile(pd.DataFrame({"age": [1.5, *markers("in")]}))


def _no_text() -> None:
    crenel.profile(pd.DataFrame({"age": [f"{marker}\ud800" for marker in markers("in")]}))


def _other_columns() -> None:
    stream = crenel.open_stream(NEAREST)
    stream.push(TABLE)
    stream.push(TABLE.set_column(1, "age", TABLE["text"]))


def _other_person() -> None:
    data = TABLE.set_column(0, "subject", pa.array(range(ROWS)))
    stream = crenel.open_stream(NEAREST)
    stream.push(data)
    stream.forget(markers("su"))


@pytest.mark.parametrize("fail", [_mixed, _mixed_text, _no_text, _other_columns, _other_person])
def test_errors_and_logs_hold_no_value(
    fail: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        fail()
    messages = [*traceback.format_exception(error.value), caplog.text, *capfd.readouterr()]
    assert not MARKER.search("".join(messages).encode())
