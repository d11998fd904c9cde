"""Outputs of a run, read back: the same from each format, and only those of the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.fields import Instant
from crenel.evidence.outputs import RunOutputs, is_outside
from crenel.evidence.verify import chain as reader
from crenel.jobs.config.load import load
from crenel.jobs.local.outputs import OutputsError, cast_texts, read_outputs
from crenel.jobs.local.sink_files import Form, read_folder
from crenel.jobs.pipeline.audit_chain import _generalized, _member
from crenel.operators.column_types import parse
from crenel.operators.encode.columns import EARLIEST, LATEST, Read
from crenel.operators.shards import chain as writer
from tests.support.outputs import ALIKE, AUDITED, Rows, configure, member, release, write_csv, write_json

SECOND = 1_709_280_000_500


def read(folder: Path, released: Rows = ALIKE, audit: Rows = AUDITED, *, options: str = "csv") -> RunOutputs:
    path = configure(folder, options=options)
    for name, rows in (("released", released), ("audit", audit)):
        if options == "json":
            write_json(folder / name, rows)
        elif rows:
            write_csv(folder / name, rows)
    return read_outputs(load(path))


def why(folder: Path, released: Rows = ALIKE, audit: Rows = AUDITED, *, options: str = "csv") -> str:
    with pytest.raises(OutputsError) as raised:
        read(folder, released, audit, options=options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("options", ["csv", "json"])
def test_tables_have_the_types_of_outputs_in_each_format(tmp_path: Path, options: str) -> None:
    found = read(tmp_path, [*ALIKE, member(40, 50, "all", "a 1.50", 10**17 + 1)], options=options)
    assert found.released.num_rows == 5
    assert found.released.slice(4).to_pylist() == [
        {"age_min": 40.0, "age_max": 50.0, "town": "all", "illness": "a 1.50", "id": str(10**17 + 1)}
    ]
    assert found.audit is not None
    assert found.audit.slice(1).to_pylist() == [release(1, 0, 40, 50, "all", event_time=SECOND) | {"in_force": None}]
    assert found.suppressed is not None
    assert found.suppressed.num_rows == 0  # its folder is not there: nothing was suppressed
    assert found.rejected is None
    assert found.generalization == ("age_min", "age_max", "town")


def test_options_of_csv_are_those_of_the_sink(tmp_path: Path) -> None:
    options = 'csv, csv.field-delimiter: ";", csv.quote-character: "\'", csv.null-literal: none'
    path = configure(tmp_path, ["released"], options)
    rows = [member(20, 30, "north", "'a; b ''c'''", 1), member(20, 30, "north", "'none'", 2)]
    write_csv(tmp_path / "released", [*rows, {**rows[0], "illness": None}], delimiter=";", null="none")
    assert read_outputs(load(path)).released["illness"].to_pylist() == ["a; b 'c'", "none", None]


def test_only_finished_files_count(tmp_path: Path) -> None:
    path = configure(tmp_path)
    file = write_csv(tmp_path / "released", ALIKE, ".part-0-1.inprogress.5")
    with pytest.raises(OutputsError, match=r"sinks\.released\.path: .* holds unfinished files only"):
        read_outputs(load(path))
    write_csv(tmp_path / "released", ALIKE)
    write_csv(tmp_path / "released", ALIKE[:2], "part-1-0")
    file.write_text("half a li", encoding="utf-8")
    (tmp_path / "audit").mkdir()
    outputs = read_outputs(load(path))
    assert outputs.released.num_rows == 6
    assert outputs.files == (("part-0-0", 4), ("part-1-0", 2))


def test_parquet_is_read_too(tmp_path: Path) -> None:
    path = configure(tmp_path, ["released"], "parquet")
    (tmp_path / "released").mkdir()
    pyarrow.parquet.write_table(pa.Table.from_pylist(ALIKE), tmp_path / "released" / "part-0")
    assert read_outputs(load(path)).released["id"].to_pylist() == ["0", "1", "2", "3"]
    pyarrow.parquet.write_table(pa.Table.from_pylist(ALIKE).drop(["id"]), tmp_path / "released" / "part-1")
    with pytest.raises(OutputsError, match=r"part-1 has other columns"):
        read_outputs(load(path))


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_nested_values_that_were_passed_through_are_read_as_text(tmp_path: Path, form: str) -> None:
    path = configure(tmp_path, ["released"], form)
    (tmp_path / "released").mkdir()
    rows = [row | {"id": {"a": [number, None]}} for number, row in enumerate(ALIKE)]
    if form == "json":
        write_json(tmp_path / "released", rows)
    else:
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "released" / "part-0")
    found = read_outputs(load(path)).released["id"].to_pylist()
    assert all(text.startswith("{") and str(number) in text for number, text in enumerate(found))


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_nested_records_are_read_as_flat_ones(tmp_path: Path, form: str) -> None:
    path = configure(tmp_path, ["released"], form)
    wanted = {name: [str(row[name]) for row in ALIKE] for name in ALIKE[0]}
    rows = [
        {"age": {"min": row.pop("age_min"), "max": row.pop("age_max")}} | row for row in (dict(row) for row in ALIKE)
    ]
    (tmp_path / "released").mkdir()
    if form == "json":
        write_json(tmp_path / "released", rows)
    else:
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "released" / "part-0")
    found = read_outputs(load(path, ["shape=nested"])).released
    assert {name: [str(value) for value in found[name].to_pylist()] for name in ("town", "id")} == {
        name: wanted[name] for name in ("town", "id")
    }
    assert [float(text) for text in wanted["age_min"]] == found["age_min"].to_pylist()
    with pytest.raises(OutputsError, match="has other columns"):
        read_outputs(load(path))


FLU, UNKNOWN = {"illness": "flu", "at": {"ward": 1}}, {"illness": None, "at": {"ward": None}}
STAYS: list[list[Any] | None] = [[FLU, UNKNOWN], [], None, [UNKNOWN]]
ROWS_OF_STAYS: list[dict[str, Any]] = [
    {"age": {"min": 20, "max": 30}, "town": "north", "of": {"stays": stays}, "id": number}
    for number, stays in enumerate(STAYS)
]
OF_STAYS = (
    "shape=nested",
    'policy.sensitive=["of.stays[*].illness"]',
    'policy.arrays={"of.stays[*].illness": 3}',
    'policy.passthrough=[id, "of.stays[*].at.ward"]',
)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_arrays_of_rows_are_read_as_an_array_of_each_field(tmp_path: Path, form: str) -> None:
    path = configure(tmp_path, ["released"], form)
    config, rows = load(path, OF_STAYS), [*ROWS_OF_STAYS]
    (tmp_path / "released").mkdir()

    def read() -> RunOutputs:
        if form == "json":
            write_json(tmp_path / "released", rows)
        else:
            pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "released" / "part-0-0")
        return read_outputs(config)

    released = read().released
    assert released["of.stays[*].illness"].to_pylist() == ['["flu", null]', "[]", None, "[null]"]
    assert released["of.stays[*].at.ward"].null_count == 1
    assert released["id"].to_pylist() == ["0", "1", "2", "3"]
    others = [
        [FLU, {**FLU, "at": {}}],
        [FLU, {**FLU, "bed": 1}],
        [{**FLU, "at": {"ward": 1, "bed": 2}}],
        ["flu"],
        "flu",
        True,
    ]
    for other in others if form == "json" else ():
        rows[1] = {**rows[1], "of": {"stays": other}}
        with pytest.raises(OutputsError, match=r"line 2 of .* has other columns"):
            read()


def test_where_nothing_is_it_is_said(tmp_path: Path) -> None:
    path = configure(tmp_path)
    with pytest.raises(OutputsError, match=r"^sinks\.released\.path: .*/released holds no finished file; has the job"):
        read_outputs(load(path))
    (tmp_path / "released").mkdir()
    with pytest.raises(OutputsError, match=r"^sinks\.released\.path: .*/released holds no finished file; has the job"):
        read_outputs(load(path))
    expected = why(tmp_path, [])
    assert expected.startswith("sinks.released.path: ")
    assert expected.endswith("is empty, and sinks.audit tells of 2 releases")
    discarded = load(path, ["sinks.released={connector: blackhole}"])
    with pytest.raises(OutputsError, match=r"^sinks\.released\.connector: 'blackhole' keeps nothing"):
        read_outputs(discarded)


def test_a_release_without_its_counts_is_refused(tmp_path: Path) -> None:
    path = configure(tmp_path)
    write_csv(tmp_path / "released", ALIKE)
    write_csv(tmp_path / "audit", [AUDITED[0], AUDITED[1] | {"subjects": None}])
    with pytest.raises(OutputsError, match=r"^sinks\.audit\.path: .*: 1 rows have no 'subjects'"):
        read_outputs(load(path), foreign=True)


@pytest.mark.parametrize("options", ["csv", "json"])
def test_a_line_that_is_cut_off_is_told_by_its_file(tmp_path: Path, options: str) -> None:
    read(tmp_path, options=options)
    file = tmp_path / "audit" / "part-0-0"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(OutputsError, match=r"^sinks\.audit\.path: .*part-0-0 is cut off in the middle of its last"):
        read_outputs(load(tmp_path / "job.yaml"))


@pytest.mark.parametrize("options", ["csv", "json"])
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"age_min": 1, "age_max": 2, "town": "all", "illness": "x4711"}, ""),
        ({**member(20, 30, "all", "x4711", 1), "more": 1}, ""),
        (member(20, 30, "atlantis", "x4711", 1), "1 rows of 'town' have a label that its hierarchy has not"),
        (member(20, 130, "all", "x4711", 1), "1 rows of 'age_max' lie outside of its domain"),
        (member(30, 20, "all", "x4711", 1), "1 rows of 'age' end before they begin"),
        ({**member(30, 40, "all", "x4711", 1), "age_min": "young"}, "'age_min' has values that are no numbers"),
        ({**member(30, 40, "all", "x4711", 1), "age_min": None}, "1 rows have no 'age_min'"),
    ],
)
def test_outputs_of_another_policy_are_refused(
    tmp_path: Path, options: str, row: dict[str, str], expected: str
) -> None:
    said = why(tmp_path, [*ALIKE, row], options=options)
    if expected:
        assert expected in said
    elif options == "csv":
        assert f"line 5 of part-0-0 has {len(row)} columns, and by this configuration it would be 5" in said
    else:
        assert "line 5 of part-0-0 has other columns" in said
    assert "another policy" in said
    assert said.startswith("sinks.released.path: ")
    assert not any(value in said for value in ("x4711", "atlantis", "young"))


def test_two_runs_in_one_folder_are_told_by_the_shard_that_begins_again(tmp_path: Path) -> None:
    again = [*AUDITED, release(0, 1, 20, 30, "north"), *AUDITED]
    assert "release ids of shard 0 begin again: these are outputs of 2 runs in one place" in why(tmp_path, audit=again)
    # One row that is there twice is no second run.
    twice = read(tmp_path, audit=[*AUDITED, AUDITED[0]])
    assert twice.audit is not None
    assert twice.audit.num_rows == 3


def test_ends_that_are_times_are_read_as_epoch_milliseconds() -> None:
    schema = pa.schema([("day", pa.float64()), ("time", pa.float64()), ("number", pa.float64())])
    text = {
        "day": pa.chunked_array([["1970-01-02", "1969-12-31", None]]),
        "time": pa.chunked_array([["1970-01-01 00:00:01.5Z", "1970-01-01T00:00:00.001000000", "1969-12-31 23:59:59"]]),
        "number": pa.chunked_array([["2024", "1.5", None]]),
    }
    assert cast_texts("x", text, schema).to_pydict() == {
        "day": [86_400_000.0, -86_400_000.0, None],
        "time": [1500.0, 1.0, -1000.0],
        "number": [2024.0, 1.5, None],
    }
    for strange in ("north", "1970-01-01 00:00:00.0005"):
        with pytest.raises(OutputsError, match="'day' has values that are no numbers"):
            cast_texts("x", text | {"day": pa.chunked_array([["1970-01-02", strange, None]])}, schema)


@pytest.mark.parametrize("options", [{"coerce_timestamps": "us"}, {"use_deprecated_int96_timestamps": True}])
def test_times_in_parquet_are_read_as_epoch_milliseconds(tmp_path: Path, options: dict[str, Any]) -> None:
    path = configure(tmp_path, ["released"], "parquet")
    text = path.read_text("utf-8").replace("domain: [0, 99]", "domain: [1969-01-01, 1970-12-31]")
    path.write_text(text, encoding="utf-8")
    (tmp_path / "released").mkdir()
    low, high = datetime(1969, 6, 1, 2, 27, 13, 687_000), datetime(1970, 3, 20, 20, 6, 43)
    rows = pa.Table.from_pylist([row | {"age_min": low, "age_max": high} for row in ALIKE])
    pyarrow.parquet.write_table(rows, tmp_path / "released" / "part-0", **options)
    found = read_outputs(load(path)).released
    assert {*found["age_min"].to_pylist()} == {-18_480_766_313.0}
    assert {*found["age_max"].to_pylist()} == {6_811_603_000.0}


@pytest.mark.parametrize("options", ["csv", "json", "parquet"])
def test_sets_are_read_from_text_and_from_arrays(tmp_path: Path, options: str) -> None:
    path = configure(tmp_path, ["released"], options)
    config = load(path, ["policy.quasi_identifiers.town.publish=set"])
    towns: list[list[str]] = [["oslo", "rome"], ["oslo", "rome"], ["all"]]
    rows = [member(20, 30, "", "flu", number) | {"town": of} for number, of in enumerate(towns)]
    if options == "csv":
        write_csv(tmp_path / "released", [row | {"town": ";".join(row["town"])} for row in rows])
    elif options == "json":
        write_json(tmp_path / "released", rows)
    else:
        (tmp_path / "released").mkdir()
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "released" / "part-0-0")
    assert read_outputs(config).released["town"].to_pylist() == ["oslo;rome", "oslo;rome", "all"]
    (tmp_path / "other.csv").write_text("paris;*\n", encoding="utf-8")
    foreign = load(path, ["policy.quasi_identifiers.town={type: categorical, hierarchy: other.csv, publish: set}"])
    with pytest.raises(OutputsError, match="3 rows of 'town' have a label that its hierarchy has not"):
        read_outputs(foreign)


def _java(value: float, single: bool) -> str:
    """Return a number as Java writes it."""
    digits, _, exponent = f"{np.float32(value) if single else np.float64(value):e}".partition("e")
    if not isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    shown = str(Decimal(str(np.float32(value) if single else value)).normalize().scaleb(-int(exponent)))
    return f"{shown}E{int(exponent)}" if digits else shown


EPOCH = datetime(1970, 1, 1)
TYPES: dict[str, tuple[Any, pa.DataType, Any, Any]] = {
    "BIGINT": (st.integers(-(2**63), 2**63 - 1), pa.int64(), int, str),
    "BOOLEAN": (st.booleans(), pa.bool_(), bool, lambda value: str(value).lower()),
    "FLOAT": (st.floats(width=32), pa.float32(), float, lambda value: _java(value, True)),
    "DOUBLE": (st.floats(), pa.float64(), float, lambda value: _java(value, False)),
    "DECIMAL(20, 10)": (st.decimals(-(10**9), 10**9, places=10), pa.decimal128(20, 10), str, lambda v: f"{v:E}"),
    "DECIMAL(38, 0)": (st.integers(-(10**37), 10**37).map(Decimal), pa.decimal128(38, 0), str, str),
    "STRING": (st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"))), pa.string(), str, str),
    "DATE": (st.dates(), pa.date32(), str, str),
    "TIME(3)": (
        st.integers(0, 86_399_999).map(lambda ms: (EPOCH + timedelta(milliseconds=ms)).time()),
        *(pa.time32("ms"), str, lambda time: str(time).rstrip("0") if time.microsecond else str(time)),
    ),
    "TIMESTAMP(6)": (st.datetimes(), pa.timestamp("us"), str, lambda time: time.isoformat(" ")),
    "TIMESTAMP(9)": (st.datetimes(), pa.timestamp("us"), lambda time: f"{time.isoformat(' ', 'microseconds')}789", str),
    "TIMESTAMP_LTZ(3)": (
        st.datetimes().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
        *(pa.timestamp("ms"), str, lambda time: f"{time.isoformat(' ')}Z"),
    ),
}
"""By SQL type: values, type in a file of Parquet, the value as the operator has it, and its text in JSON and CSV."""


def read_back(column: list[Any], texts: list[str | None], stored: pa.DataType) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield each format, and the texts that are read of a column that its sink wrote; JSON also without quotes.

    Parameters
    ----------
    column, stored : values and type in a file of Parquet
    texts : of the values in CSV and JSON
    """
    quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
    plain = [
        text if text is not None and _NUMBER.fullmatch(text) else own for text, own in zip(texts, quoted, strict=True)
    ]
    lines = ["\n" if text is None else '"{}"\n'.format(text.replace('"', '""')) for text in texts]
    written = [("json", "".join(f'{{"c": {each}}}\n' for each in of)) for of in (quoted, plain)]
    for form, content in (*written, ("csv", "".join(lines)), ("parquet", "")):
        with TemporaryDirectory() as folder:
            if form == "parquet":
                pyarrow.parquet.write_table(pa.table({"c": pa.array(column, stored)}), Path(folder) / "part-0")
            else:
                (Path(folder) / "part-0").write_text(content, encoding="utf-8")
            found = read_folder("released", Path(folder), [Form({"format": form}, ["c"])])
        assert found is not None
        yield form, found[0]["c"]


_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(E[+-]?\d+)?")
"""A number of JSON, which Flink writes without quotes."""


@pytest.mark.parametrize("sql", TYPES)
@given(data=st.data())
def test_each_value_hashes_as_it_was_once_it_is_read_back(sql: str, data: st.DataObject) -> None:
    """Write a column as each sink does, read it, and compare with the hash input of the operator."""
    values, stored, own, text = TYPES[sql]
    column = data.draw(st.lists(values | st.none(), min_size=1, max_size=5))
    for form, read in read_back(column, [None if value is None else text(value) for value in column], stored):
        if form != "parquet" and sql == "TIMESTAMP(9)":
            continue
        member = _member(Read("c", "text", 0), parse(sql), {"format": form})
        kind = {"BIGINT": pa.int64(), "BOOLEAN": pa.bool_(), "FLOAT": pa.float64(), "DOUBLE": pa.float64()}
        of_operator = writer._as_text(kind.get(sql, pa.string()), member)
        wanted = ["" if value is None else of_operator(own(value)) for value in column]
        assert [reader._published(read or "", member.form) for read in read.to_pylist()] == wanted, form


def _decimal(precision: int, scale: int) -> tuple[Any, ...]:
    """Return a row of ``ENDS`` for a DECIMAL, whose ends Flink's CAST rounds."""
    most = 10.0 ** (precision - scale) - 1
    digits = Decimal(1).scaleb(-scale)
    return (
        st.floats(-most, most) | st.integers(int(-most), int(most)).map(float),
        pa.decimal128(precision, scale),
        lambda end: Decimal(repr(end)).quantize(digits, ROUND_HALF_UP, Context(prec=60)),
        str,
    )


def _of_milliseconds(unit: int, form: str) -> tuple[Any, ...]:
    """Return a row of ``ENDS`` for times, which Flink rounds down; ``form``: of ``isoformat``."""
    moment = lambda end: EPOCH + timedelta(milliseconds=int(end // unit * unit))  # noqa: E731
    return (
        st.integers(EARLIEST, LATEST).map(float),
        pa.timestamp("ms"),
        moment,
        lambda time: time.isoformat(" ", form) if form else str(time.date()),
    )


REALS = st.floats(allow_nan=False, allow_infinity=False)
ENDS: dict[str, tuple[Any, ...]] = {
    "INT": (st.integers(-(2**31), 2**31 - 1), pa.int32(), int, str),
    "BIGINT": (st.integers(-(2**63), 2**63 - 1), pa.int64(), int, str),
    "FLOAT": (
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        pa.float32(),
        float,
        lambda v: _java(v, True),
    ),
    "DOUBLE": (REALS, pa.float64(), float, lambda value: _java(value, False)),
    "DECIMAL(5, 2)": _decimal(5, 2),
    "DECIMAL(15, 0)": _decimal(15, 0),
    "DECIMAL(15, 6)": _decimal(15, 6),
    "DECIMAL(12, 12)": _decimal(12, 12),
    "DATE": _of_milliseconds(86_400_000, ""),
    "TIMESTAMP(0)": _of_milliseconds(1000, "seconds"),
    "TIMESTAMP_LTZ(3)": _of_milliseconds(1, "milliseconds"),
}
"""By SQL type of a quasi-identifier: its end as the operator publishes it, type in a file of Parquet, the value there,
and its text in JSON and CSV."""


@pytest.mark.parametrize("sql", ENDS)
@given(data=st.data())
def test_each_end_hashes_and_compares_as_it_was_once_it_is_read_back(sql: str, data: st.DataObject) -> None:
    """Compare a column of the generalization with the hash input of the operator, and with the same in Parquet."""
    values, stored, held, text = ENDS[sql]
    ends = data.draw(st.lists(values | st.none(), min_size=1, max_size=5))
    column = [None if end is None else held(end) for end in ends]
    of = _generalized("c", parse(sql))
    wanted = [writer._as_published(of)(end) for end in ends]
    texts = [None if value is None else text(value) for value in column]
    numbers = []
    for form, read in read_back(column, texts, stored):
        table = cast_texts("sinks.audit", {"c": read}, pa.schema([("c", pa.float64())]))
        numbers.append(table["c"].to_pylist())
        assert [reader._text(value, single=of.form == "float") for value in numbers[-1]] == wanted, form
    assert all(each == numbers[0] for each in numbers)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_label_without_text_is_read_from_each_format(tmp_path: Path, form: str) -> None:
    path = configure(tmp_path, ["released"], form)
    (tmp_path / "towns.csv").write_text("oslo;;*\nbergen;;*\nrome;south;*\npisa;south;*\n", encoding="utf-8")
    write = {"csv": write_csv, "json": write_json}[form]
    write(tmp_path / "released", [member(20, 30, "", "flu", 1), member(20, 30, "south", "flu", 1)])
    assert read_outputs(load(path)).released["town"].to_pylist() == ["", "south"]


@pytest.mark.parametrize(
    ("kind", "domain", "inside", "outside"),
    [
        # A FLOAT compares with the domain as float32 and is written with its digits, or as its float64.
        (pa.float32(), (100_000_001, 400_000_003), [1e8, 4e8], [99_999_992, 400_000_032, 4.1e8]),
        (pa.float32(), (0.1, 0.3), [0.1, float(np.float32(0.3)), 0.3], [0.0999999, 0.30000005, 0.3001]),
        (pa.float32(), (0, 110), [0, 110], [-1e-45, 110.00001]),
        (pa.float64(), (0.1, 0.3), [0.1, 0.3, 0.1 + 0.2], [0.0999999, float(np.float32(0.3)), 0.31]),
        (pa.float64(), (0, 99.5), [99.5], [-1e-300, 99.50001, 100]),
        (pa.int64(), (0, 20_000_003), [0, 20_000_003], [-1, 20_000_004, 20_000_005]),
        (pa.int32(), (0.5, 99.5), [0, 100], [-1, 101]),
        (pa.int64(), (-(2.0**62), 2.0**62), [-(2.0**62) - 1024, 2.0**62 + 1024], [-(2.0**62) - 2048, 2.0**62 + 2048]),
        (pa.decimal128(5, 2), (0.125, 0.375), [0.12, 0.13, 0.38], [0.11, 0.39]),
        (pa.decimal128(5, 1), (0.125, 0.375), [0.1, 0.4], [0.12, 0.38]),
        (pa.timestamp("s"), (Instant(1500), Instant(9500)), [1000, 1500, 9500], [999, 1499, 9501]),
        # Without a type each of these ends may be rounded, and no other number.
        (None, (0, 20_000_001), [0, 20_000_001], [-1, -1e-9, 20_000_001.5, 20_000_002]),
        (None, (0, 110), [0, 110], [-1e-45, 110.0000001, 111]),
        (None, (0.1, 99.5), [0, 0.1, 99.5, 100], [-0.1, 0.05, 99.6, 99.50001, 101]),
        (None, (0, 400_000_003), [4e8, 400_000_003], [400_000_004, 400_000_032]),
        (None, (Instant(1500), Instant(9500)), [0, 1000, 1500], [999, 9501, 10_000]),
    ],
)
def test_only_the_end_of_a_domain_as_its_column_holds_it_may_lie_beside_it(
    kind: pa.DataType | None, domain: tuple[float, float], inside: list[float], outside: list[float]
) -> None:
    found = is_outside(np.array([*inside, *outside, np.nan]), domain, kind)
    assert found.tolist() == [False] * len(inside) + [True] * len(outside) + [False]
