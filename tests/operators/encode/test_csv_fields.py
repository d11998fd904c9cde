"""Fields of lines of CSV: each line is read as if it were alone, and a text as it is read one by one."""

from __future__ import annotations

import csv
import io
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.operators.encode import try_cast as texts
from crenel.operators.encode.cells import FORMS, CellType
from crenel.operators.encode.csv_fields import CsvFields
from crenel.operators.encode.csv_values import read_as
from crenel.operators.encode.records import RecordArguments
from crenel.operators.encode.try_cast import WHOLE
from tests.support.times import TIMES

KINDS = (
    *(CellType(name) for name in ("STRING", "BOOLEAN", "FLOAT", "DOUBLE", "DATE", *WHOLE)),
    *(CellType("DECIMAL", *digits) for digits in ((10, 2), (38, 9), (3, 3), (5, 0))),
    *(CellType("TIMESTAMP", precision) for precision in (0, 3, 6)),
)
WIDTH = 3
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-300, 300).map(str),
    st.floats().map(str),
    st.decimals(-(10**9), 10**9, places=3).map(str),
    st.from_regex(r"\A *[+-]?[0-9]{0,12}\.?[0-9]{0,4}([eE][+-]?[0-9]{1,3})? *\Z"),
    st.sampled_from(("NaN", "nan", "inf", "INF", "Infinity", "-Infinity", "infinity", "0x1A", "0X1a", "1_0", "1d", "")),
    st.sampled_from(("1e400", "-1e400", "1e39", "1e-400", "٣", "1,5", ".", "-", "+", "-.5", "5.", "007", "-0", "+5")),
)
TIME_TEXTS = st.one_of(
    st.datetimes(datetime(1, 1, 1)).map(lambda time: time.isoformat(" ")),
    st.datetimes(datetime(1, 1, 1)).map(lambda time: time.isoformat("T", "milliseconds")),
    st.datetimes(datetime(1900, 1, 1)).map(lambda time: time.isoformat(" ", "seconds")),
    st.dates(date(1, 1, 1)).map(str),
    st.from_regex(
        r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]([ T][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,11})?)?)?"
        r"(Z|z|[+-][0-2][0-9](:?[0-6][0-9])?)?\Z"
    ),
    st.sampled_from(
        ("2024-02-29", "2023-02-29", "20240229", "2024-2-9", "0000-01-01", "2024-02-29 24:00:00", " 2024-02-29")
    ),
    st.sampled_from(
        ("2024-02-29 10", "2024-02-29T1000", "2024-02-29 10:00:00,5", "2024-02-29 10:00:00+01:00", "24-02-29")
    ),
)
TRUTHS = st.sampled_from(("true", "TRUE", "False", "t", "F", "yes", "no", "1", "0", "2", "on", " true", "truth"))
VALUES = st.one_of(NUMBERS, TIME_TEXTS, TRUTHS, st.text(max_size=5))
ODD_LINES = st.text(st.sampled_from('",a1 \n\r\x01\x02\x03é'), max_size=12).map(str.encode)
LINES = st.one_of(
    st.lists(VALUES, min_size=WIDTH, max_size=WIDTH).map(lambda values: written(values)),
    ODD_LINES,
    st.binary(max_size=8),
    st.none(),
)


def written(values: list[str]) -> bytes:
    """Return a line, as Python's own writer has it, which without a line's end takes none for worth a quote."""
    line, ends = io.StringIO(), any("\r" in value for value in values)
    csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL if ends else csv.QUOTE_MINIMAL).writerow(values)
    return line.getvalue().encode()


def read(lines: list[bytes | None], *kinds: CellType, width: int = WIDTH, **how: Any) -> list[list[Any]]:
    """Return every form of each field; all fields are of one type where one is given."""
    fields = CsvFields(width, tuple((place, kinds[place % len(kinds)]) for place in range(width)), **how)
    arguments = tuple((place, form) for place, (_, kind) in enumerate(fields.fields) for form in FORMS[kind.name])
    return [column.tolist() for column in RecordArguments(fields, arguments).read(pd.Series(lines, dtype=object))]


def alike(left: Any, right: Any) -> bool:
    return bool(left == right or (pd.isna(left) and pd.isna(right)))


@given(st.lists(LINES, min_size=1, max_size=8), st.sampled_from(KINDS))
def test_each_line_is_read_as_if_it_were_alone(lines: list[bytes | None], kind: CellType) -> None:
    alone = [read([line], kind) for line in lines]
    for number, column in enumerate(read(lines, kind)):
        assert all(alike(value, row[number][0]) for value, row in zip(column, alone, strict=True))


@given(st.lists(st.lists(st.text(max_size=8), min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=6))
def test_what_was_written_is_read(rows: list[list[str]]) -> None:
    columns = read([written(row) for row in rows], CellType("STRING"))
    assert [list(row) for row in zip(*columns, strict=True)] == [[value or None for value in row] for row in rows]


@given(st.lists(st.lists(st.text(max_size=8), min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=6))
def test_another_delimiter_and_no_quotes_are_read(rows: list[list[str]]) -> None:
    plain = [[value.replace("\t", "").rstrip("\r") for value in row] for row in rows]
    lines: list[bytes | None] = ["\t".join(row).encode() for row in plain]
    columns = read(lines, CellType("STRING"), delimiter="\t", quote=None, null="\\N")
    assert [list(row) for row in zip(*columns, strict=True)] == [
        [None if value == "\\N" else value for value in row] for row in plain
    ]


def one_by_one(kind: CellType, text: str) -> Any:
    """Return the value of a text, read without Arrow."""
    if kind.name == "STRING":
        return text
    if kind.name == "BOOLEAN":
        return texts.truth(text)
    if kind.name in WHOLE:
        found, end = texts.integer(text), 1 << (WHOLE[kind.name] - 1)
        return found if found is not None and -end <= found < end else None
    if kind.name in ("DOUBLE", "FLOAT"):
        real = texts.real(text)
        with np.errstate(over="ignore"):
            return real if real is None or kind.name == "DOUBLE" else float(np.float32(real))
    if kind.name == "DECIMAL":
        return texts.decimal(text, kind.precision, kind.scale)
    time = a_time(text.strip(" "))
    if time is None:
        return None
    if kind.name == "DATE":
        return time.date()
    digits = 10 ** (6 - kind.precision)
    return time.replace(microsecond=time.microsecond // digits * digits)


def a_time(text: str) -> datetime | None:
    day, middle, clock = text[:10], text[10:11].upper(), text[11:]
    if zone := re.search(r"([Zz]|[+-]\d\d(:?\d\d)?)$", clock, re.ASCII):
        without = a_time(text[: 11 + zone.start()])
        hours, minutes = zone[0][1:3] or "0", zone[0][3:].lstrip(":") or "0"
        if without is None or not clock[: zone.start()] or int(hours) > 23 or int(minutes) > 59:
            return None
        try:
            return without - (-1) ** (zone[0][0] == "-") * timedelta(hours=int(hours), minutes=int(minutes))
        except OverflowError:
            return None
    whole, _, fraction = clock.partition(".")
    digits = [part for part in (*day.split("-"), *whole.split(":"), fraction) if part]
    plain = all(part.isascii() and part.isdigit() for part in digits)
    shape = [len(day), len(day.split("-")), len(whole)]
    if not plain or shape not in ([10, 3, 0], [10, 3, 5], [10, 3, 8]) or (middle and not clock):
        return None
    if middle not in ("", " ", "T") or ("." in clock and (len(whole) < 8 or not fraction)):
        return None
    try:
        made = datetime.strptime(f"{day} {whole or '00:00'}{'' if len(whole) == 8 else ':00'}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    second = int(whole[6:8] or 0)
    return made.replace(microsecond=int(fraction.ljust(6, "0")[:6] or 0)) if second < 60 else None


@given(st.lists(st.none() | VALUES, min_size=1, max_size=6), st.sampled_from(KINDS))
def test_texts_are_read_together_as_one_by_one(values: list[str | None], kind: CellType) -> None:
    found = read_as(kind, pa.array(values, pa.string())).to_pylist()
    wanted = [None if value is None else one_by_one(kind, value) for value in values]
    assert all(alike(one, other) for one, other in zip(found, wanted, strict=True)), (found, wanted)


@pytest.mark.parametrize("text", TIMES)
def test_times_of_rfc_3339_are_read_in_utc(text: str) -> None:
    found = read_as(CellType("TIMESTAMP", 3), pa.array([text, *TIMES]))
    wanted = [None if time is None else datetime.fromisoformat(time) for time in (TIMES[text], *TIMES.values())]
    assert found.to_pylist() == wanted
    assert read_as(CellType("TIMESTAMP", 3), pa.array([text])).to_pylist() == wanted[:1]
    assert read_as(CellType("DATE"), pa.array([text])).to_pylist() == [wanted[0] and wanted[0].date()]


def one(value: str, kind: CellType, form: str) -> Any:
    plan = RecordArguments(CsvFields(1, ((0, kind),)), ((0, form),))  # type: ignore[arg-type]
    return plan.read(pd.Series([written([value])], dtype=object))[0].tolist()[0]


@pytest.mark.parametrize(
    ("value", "kind", "form", "wanted"),
    [
        ("007", CellType("INT"), "text", "7"),
        (" 12.7 ", CellType("INT"), "integer", 12),
        ("1.5", CellType("DECIMAL", 10, 2), "text", "1.50"),
        ("0.07", CellType("DECIMAL", 10, 2), "number", 0.07),
        ("0.3", CellType("DECIMAL", 10, 1), "number", 0.3),
        ("0.000000001", CellType("DECIMAL", 38, 9), "text", "0.000000001"),
        ("-0.001", CellType("DECIMAL", 10, 2), "text", "0.00"),
        ("yes", CellType("BOOLEAN"), "text", "TRUE"),
        ("0.1", CellType("FLOAT"), "number", float(np.float32(0.1))),
        ("2024-02-29T10:00", CellType("TIMESTAMP", 3), "text", "2024-02-29 10:00:00.000"),
        ("2024-02-29", CellType("DATE"), "time", pd.Timestamp("2024-02-29")),
        ("2024-02-29 10:00:00.1239", CellType("TIMESTAMP", 3), "time", pd.Timestamp("2024-02-29 10:00:00.123")),
        ("2024-02-29 10:00:00.5", CellType("TIMESTAMP", 0), "text", "2024-02-29 10:00:00"),
        ("2024-02-29 10:00:00.5", CellType("TIMESTAMP", 6), "text", "2024-02-29 10:00:00.500000"),
        ("2024-02-29 10:00:00", CellType("TIMESTAMP", 6), "day", "2024-02-29"),
        ("2024-02-29 10:00:00", CellType("DATE"), "text", "2024-02-29"),
        ("9223372036854775807", CellType("BIGINT"), "integer", 2**63 - 1),
    ],
)
def test_a_value_is_given_as_sql_would(value: str, kind: CellType, form: str, wanted: Any) -> None:
    assert one(value, kind, form) == wanted


@pytest.mark.parametrize(
    "line",
    [None, b"", b"\r", b"7", b"7,x,", b'7,"x', b'7,x"\n"', b'"7,x', b"7\n8,x,\n9"],
)
def test_of_a_line_that_cannot_be_read_every_field_is_missing(line: bytes | None) -> None:
    kinds = CellType("INT"), CellType("STRING")
    columns = read([b"7,x", line, b"8,y"], *kinds, width=2)
    whole, text = columns[1], columns[-1]
    if line == b'7,x"\n"':  # a quote within a field is a character
        assert text == ["x", 'x"\n"', "y"]
    else:
        assert (whole, text) == ([7, 0, 8], ["x", None, "y"])


def test_line_breaks_and_ends_of_other_systems_are_read() -> None:
    lines: list[bytes | None] = [b'1,"a\nb"\r', b'2,"c\r\nd"', b"3,e\r", b'4,"\x01\x02\x03"', b"5,f\rg"]
    *_, text = read(lines, CellType("INT"), CellType("STRING"), width=2)
    assert text == ["a\nb", "c\r\nd", "e", "\x01\x02\x03", "f\rg"]
    assert read([b"1,a\r", b"2,b\r"], CellType("INT"), CellType("STRING"), width=2)[-1] == ["a", "b"]


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("lines", [[MARK + b"ann,1", b"bob,2"], [b"bob,2", MARK + b"ann,1"], [MARK * 2 + b"ann,1"]])
def test_a_mark_of_byte_order_is_left_out_at_the_beginning_of_any_line(lines: list[bytes | None]) -> None:
    names = read(lines, CellType("STRING"), CellType("INT"), width=2)[0]
    assert names == ["bob" if line == b"bob,2" else "ann" for line in lines]
    assert read([b"x" + MARK + b",1"], CellType("STRING"), CellType("INT"), width=2)[0] == ["x\ufeff"]


def test_a_quote_that_does_not_end_behind_a_mark_of_byte_order_is_one_line() -> None:
    assert read([MARK + b'"x,1', b"y,2"], CellType("STRING"), CellType("INT"), width=2)[0] == [None, "y"]
    assert read([MARK + b'"x",1', b"y,2"], CellType("STRING"), CellType("INT"), width=2)[0] == ["x", "y"]


def test_numbers_of_any_length_are_read_as_they_are() -> None:
    assert one("1" * 5000, CellType("INT"), "missing")
    assert one("1" * 5000, CellType("DOUBLE"), "number") == np.inf
    assert one("0" * 5000 + "7", CellType("INT"), "integer") == 7
    # Arrow's own cast made -75618303760208547436305468318.281824768 of it, and 0.00 of the next.
    assert one("1" * 5000, CellType("DECIMAL", 38, 9), "text") is None
    assert one("1." + "0" * 50 + "1", CellType("DECIMAL", 10, 2), "text") == "1.00"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert read([b"\xff,\xe2\x82,c", b"d,e,f"], CellType("STRING")) == [["\ufffd", "d"], ["\ufffd", "e"], ["c", "f"]]


def test_a_decimal_is_exact_at_each_of_its_digits() -> None:
    for number in range(1000):
        text = f"0.{number:03}"
        assert one(text, CellType("DECIMAL", 10, 3), "number") == float(text)
        assert one(text, CellType("DECIMAL", 10, 3), "text") == str(Decimal(text))
