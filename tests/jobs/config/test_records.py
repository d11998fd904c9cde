"""Columns that are read from text: what of ``from_csv`` and ``from_json`` is taken, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.load import load
from crenel.jobs.config.records import CsvRecords, Records

TEXT = """
policy: {quasi_identifiers: {age: {type: numeric}}}
privacy: {k: 3}
castle: {delay: {tuples: 5}}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""
CSV = "source.from_csv={column: line, fields: {age: int, 'on': 'DECIMAL(5, 2)', t: TIMESTAMP(3)}%s}"


def read(folder: Path, *overrides: str) -> Records | None:
    path = folder / "job.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return load(path, overrides).source.records


def test_lines_are_read_in_the_order_of_their_fields(tmp_path: Path) -> None:
    found = read(tmp_path, CSV % ", delimiter: '\t', quote: null, null_literal: '\\N'")
    assert isinstance(found, CsvRecords)
    assert found == CsvRecords("line", {"age": "int", "on": "DECIMAL(5, 2)", "t": "TIMESTAMP(3)"}, "\t", None, "\\N")
    assert list(found.fields) == ["age", "on", "t"]
    plain = read(tmp_path, CSV % "")
    assert isinstance(plain, CsvRecords)
    assert (plain.delimiter, plain.quote, plain.null) == (",", '"', "")
    assert plain.parsing_options != found.parsing_options


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((CSV % ", delimiter: ';;'",), "source.from_csv.delimiter: is not one character of ASCII"),
        ((CSV % ", delimiter: é",), "source.from_csv.delimiter: is not one character of ASCII"),
        ((CSV % ", quote: ''",), "source.from_csv.quote: is not one character of ASCII"),
        ((CSV % ", quote: ','",), "source.from_csv: has one character as 'delimiter' and as 'quote'; give two, or"),
        ((CSV % ", header: true",), "source.from_csv.header: is unknown; known here: column"),
        (("source.from_csv={column: line, fields: {}}",), "source.from_csv.fields: "),
        (
            ("source.from_csv={column: line, fields: {t: TIMESTAMP_LTZ(3)}}",),
            "source.from_csv.fields.t: is not a type that a field of CSV is read as; ",
        ),
        (
            ("source.from_csv={column: line, fields: {t: TIMESTAMP(9)}}",),
            "source.from_csv.fields.t: is not a type that a field of CSV is read as; ",
        ),
        (
            (CSV % "", "source.query=SELECT * FROM source"),
            "source: has 'query' and 'from_csv', of which one stands in the other's place; keep one",
        ),
        (
            (CSV % "", "source.from_json={column: record, fields: {age: INT}}"),
            "source: has 'from_json' and 'from_csv', of which one stands in the other's place; keep one",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_field(
    tmp_path: Path, overrides: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, *overrides)
    (problem,) = error.value.problems
    assert problem.startswith(expected)
