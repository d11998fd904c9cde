"""Fields of records of JSON: read quickly they are what they are read exactly, and what cannot be read is missing."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.operators.encode.cells import CellType
from crenel.operators.encode.json_fields import FORMS, JsonFields
from crenel.operators.encode.json_scan import WHOLE, scan
from crenel.operators.encode.records import RecordArguments

FIELDS = tuple(
    (path, CellType(kind, 10, 2)) for path in (("a",), ("a", "b"), ("a", 0), ("a", 1, "b"), ()) for kind in FORMS
)
PLAN = RecordArguments(
    JsonFields(FIELDS), tuple((number, form) for number, field in enumerate(FIELDS) for form in FORMS[field[1].name])
)

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-(10**9), 10**9, places=3).map(float),
    st.text(max_size=5),
    st.from_regex(r"\A *[+-]?[0-9]{0,12}\.?[0-9]{0,4}(e[+-]?[0-9]{1,3})? *\Z"),
    st.sampled_from(["true", "F", "NaN", "-Infinity", " yes", "0"]),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
RECORDS = st.lists(st.dictionaries(st.sampled_from(["a", "b"]), VALUES) | VALUES, min_size=1, max_size=6)


def read(records: list[bytes | None], plan: RecordArguments = PLAN) -> list[list[Any]]:
    return [column.tolist() for column in plan.read(pd.Series(records, dtype=object))]


def one(value: str, kind: str, form: str, precision: int = 10, scale: int = 2) -> Any:
    """Return the values read from a record with one field."""
    plan = RecordArguments(JsonFields(((("a",), CellType(kind, precision, scale)),)), ((0, form),))  # type: ignore[arg-type]
    ((found,),) = read([b'{"a": %b}' % value.encode()], plan)
    return found


def the_same(left: list[list[Any]], right: list[list[Any]]) -> bool:
    return all(
        one == other or (one != one and other != other)
        for a, b in zip(left, right, strict=True)
        for one, other in zip(a, b, strict=True)
    )


@given(RECORDS)
def test_quickly_and_exactly_read_is_the_same(values: list[Any]) -> None:
    quickly = [json.dumps(value).encode() for value in values]
    # The text behind the record keeps the reader from the quick way.
    assert the_same(read(list(quickly)), read([record + b" x" for record in quickly]))


@given(RECORDS, st.sampled_from(["INT", "BIGINT", "STRING", "BOOLEAN", "DOUBLE"]), st.booleans())
def test_scanned_and_exactly_read_is_the_same(values: list[Any], kind: str, is_ascii: bool) -> None:
    fields = ((("a",), CellType(kind)), (("b",), CellType(kind)))
    plan = RecordArguments(JsonFields(fields), tuple((field, form) for form in FORMS[kind] for field in (0, 1)))
    scanned = [json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass") for value in values]
    assert the_same(read(list(scanned), plan), read([record + b" x" for record in scanned], plan))
    cut = [record[:-1] for record in scanned]
    assert the_same(read(list(cut), plan), read([record + b" x" for record in cut], plan))


PLAIN = (
    b'{"a": 1}',
    b'{"z": [{"a": "\\n"}, {}, [], -0.5, true], "a": "12", "b": null}',
    b' {"a" : 2 , "b" : -3 }\r\n',
    b'{"a": 1, "a": 7}',
    b"{}",
)


def test_plain_records_are_scanned_whatever_stands_beside_them() -> None:
    odd = (b"", None, b'{"a": 1', b'{"a": 1} {}', b'{"a": [1}', b'{"a": 1,}', b"[]", b'{"\xff": 1}', b'{"a": 1.0}')
    records = [record for pair in zip(PLAIN, odd, strict=False) for record in pair] + list(odd[len(PLAIN) :])
    scanned = scan(pa.array(records, pa.binary()), ("a", "b"), (WHOLE, WHOLE))
    assert [record for record, plain in zip(records, scanned.plain, strict=True) if plain] == list(PLAIN)
    plan = RecordArguments(JsonFields(((("a",), CellType("INT")),)), ((0, "integer"), (0, "missing")))
    values, missing = read(records, plan)
    assert [value for value, record in zip(values, records, strict=True) if record in PLAIN] == [1, 12, 2, 7, 0]
    assert [record for record, lacks in zip(records, missing, strict=True) if not lacks and record in odd] == [
        b'{"a": 1} {}',
        b'{"a": 1.0}',
    ]


@given(RECORDS)
def test_each_record_is_read_as_if_it_were_alone(values: list[Any]) -> None:
    records: list[bytes | None] = [json.dumps(value).encode() for value in values]
    alone = [read([record]) for record in records]
    joint = [[row[number][0] for row in alone] for number in range(len(PLAN.arguments))]
    assert the_same(read(records), joint)


@given(st.text(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))
def test_what_fits_its_type_is_what_was_written(text: str, whole: int, truth: bool, real: float) -> None:
    record = json.dumps({"text": text, "whole": whole, "truth": truth, "real": real}).encode()
    kinds = {"text": "STRING", "whole": "BIGINT", "truth": "BOOLEAN", "real": "DOUBLE"}
    plan = RecordArguments(
        JsonFields(tuple(((name,), CellType(kind)) for name, kind in kinds.items())),
        ((0, "text"), (1, "integer"), (2, "boolean"), (3, "number"), (1, "missing"), (1, "text"), (2, "text")),
    )
    found = [column[0] for column in read([record], plan)]
    assert found == [text, whole, truth, real, False, str(whole), str(truth).upper()]


@given(st.decimals(-99_999_999, 99_999_999, places=4))
def test_a_decimal_is_rounded_as_it_was_written(value: Decimal) -> None:
    wanted = value.quantize(Decimal("0.01"), ROUND_HALF_UP)
    written = "0.00" if wanted == 0 else str(wanted)
    assert one(str(value), "DECIMAL", "text") == one(f'"{value}"', "DECIMAL", "text") == written
    assert one(str(value), "DECIMAL", "number") == float(wanted)


def test_digits_that_a_float_does_not_hold_count() -> None:
    assert one("1.00499999999999999999", "DECIMAL", "text") == "1.00"
    assert one("1.005", "DECIMAL", "text") == "1.01"
    assert one("1.00000000000000000001", "DECIMAL", "text") == "1.00"
    assert (
        one("1234567890123456789012345678901234.567", "DECIMAL", "text", 38, 3)
        == "1234567890123456789012345678901234.567"
    )
    assert one("12345678901234567890.12", "DECIMAL", "text", 38, 2) == "12345678901234567890.12"
    assert one("-0.0", "DECIMAL", "text") == one("-0.001", "DECIMAL", "text") == "0.00"
    assert one("12345678901234567890.10", "STRING", "text") == "12345678901234567890.10"
    assert one("1e3", "STRING", "text") == "1E+3"
    assert one("9223372036854775807", "BIGINT", "integer") == 2**63 - 1


@pytest.mark.parametrize(
    "record",
    [
        None,
        b"",
        b"{",
        b'{"a": 1,}',
        b"{'a': 1}",
        b'{"a": 1, "b": NaN}',
        b"null",
        b"5",
        b'"a"',
        b"[1]",
        b'\xff{"a": 1}',
        b"[" * 5000,
    ],
)
def test_of_what_is_no_record_every_field_is_missing(record: bytes | None) -> None:
    plan = RecordArguments(
        JsonFields(((("a",), CellType("STRING")), (("a",), CellType("INT")))),
        ((0, "text"), (1, "missing"), (1, "integer")),
    )
    good = b'{"a": 7}'
    assert read([good, record, good], plan) == [["7", None, "7"], [False, True, False], [7, 0, 7]]


NESTED = b"[" * 600 + b"]" * 600


@pytest.mark.parametrize(
    "odd",
    [
        b'"z": 1e99999999999999999999',
        b'"z": -1e-99999999999999999999',
        b'"z": %b' % (b"1" * 5000),
        b'"z": "%b"' % (b"1" * 5000),
        b'"z": "\\udc00", "y": 1e400',
        b'"z": %b, "y": 1.5' % (b"[" * 400 + b"]" * 400),
    ],
)
def test_an_odd_field_leaves_the_others_of_its_record_as_they_are(odd: bytes) -> None:
    plan = RecordArguments(
        JsonFields(((("a",), CellType("STRING")), (("b",), CellType("INT")), (("z",), CellType("INT")))),
        ((0, "text"), (1, "integer"), (2, "missing")),
    )
    for tail in (b"", b" x"):
        assert read([b'{"a": "x", "b": 2.5, %b}' % odd + tail], plan) == [["x"], [2], [True]]


@pytest.mark.parametrize("record", [b'{"n": %b, "a": "\\ud800"}', b'{"n": %b, "a": 1.5}', b'{"n": %b, "a": "x"} x'])
def test_a_record_that_is_nested_too_deep_is_none_and_its_neighbors_are_read(record: bytes) -> None:
    plan = RecordArguments(JsonFields(((("a",), CellType("STRING")),)), ((0, "text"),))
    assert read([b'{"a": "y"}', record % NESTED, b'{"a": "z"}'], plan) == [["y", None, "z"]]
    # Brackets of a text, and those that stand beside each other, are no nesting.
    wide = b'{"a": "%b", "b": [%b0]}' % (b"[" * 600, b"[]," * 600)
    assert read([wide], plan) == [["[" * 600]]


def test_numbers_of_any_length_keep_their_digits() -> None:
    digits = "1" * 5000
    assert one(digits, "STRING", "text") == one(f'"{digits}"', "STRING", "text") == digits
    assert one(f'"{"0" * 5000}7"', "INT", "integer") == 7
    assert one(digits, "DOUBLE", "number") == one("1e99999999999999999999", "DOUBLE", "number") == np.inf
    assert one("1e99999999999999999999", "STRING", "text") is None


def test_bytes_that_are_no_text_are_replaced_where_the_rest_is_json() -> None:
    plan = RecordArguments(
        JsonFields(((("a",), CellType("STRING")), (("b",), CellType("INT")))), ((0, "text"), (1, "integer"))
    )
    assert read([b'{"a": "x\xff", "b": 3}', b'{"a": "\\ud800y", "b": 4}'], plan) == [["x\ufffd", "?y"], [3, 4]]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("300", "TINYINT"),
        ("-129", "TINYINT"),
        ("99999", "SMALLINT"),
        ("2147483648", "INT"),
        ("9223372036854775808", "BIGINT"),
        ("true", "INT"),
        ('"1e2"', "INT"),
        ("1e2", "INT"),
        ('"."', "INT"),
        ('"1_000"', "DOUBLE"),
        ('"0x1p3"', "DOUBLE"),
        ('"1d"', "DOUBLE"),
        ('"inf"', "DOUBLE"),
        ('"١"', "DOUBLE"),
        ("99999999.995", "DECIMAL"),
        ("1e400000", "DECIMAL"),
        ('"Y"', "DECIMAL"),
        ('" yes"', "BOOLEAN"),
        ("2", "BOOLEAN"),
        ("[1]", "STRING"),
        ("{}", "STRING"),
        ("null", "STRING"),
    ],
)
def test_what_does_not_fit_its_type_is_missing(value: str, kind: str) -> None:
    form = FORMS[kind][0]
    found = one(value, kind, form)
    assert found is None or np.isnan(found)


def test_arguments_of_sql_stay_in_their_places() -> None:
    plan = RecordArguments(JsonFields(((("a",), CellType("INT")),)), (None, (0, "number"), None))
    records = pd.Series([b'{"a": 1}', b'{"a": 2}'], dtype=object)
    first, number, constant = plan.read(records, pd.Series(["x", "y"]), "same")
    assert (first.tolist(), number.tolist(), constant) == (["x", "y"], [1, 2], "same")
