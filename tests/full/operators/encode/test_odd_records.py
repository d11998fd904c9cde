"""No record stops a job, and none changes what its neighbors give: a fuzz of both readers, and of all that encodes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crenel.anonymity.model.attributes import Categorical, Numeric, by_name
from crenel.anonymity.model.builders.dates import Dates
from crenel.anonymity.model.builders.mask import Mask
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.secret import SubjectKey
from crenel.jobs.formats.csv_records import CsvRecords
from crenel.jobs.formats.json_records import JsonRecords
from crenel.operators.encode.cells import FORMS as CSV_FORMS
from crenel.operators.encode.cells import CellType
from crenel.operators.encode.columns import members_schema
from crenel.operators.encode.containment import ContainedEncoder
from crenel.operators.encode.csv_fields import CsvFields
from crenel.operators.encode.json_fields import FORMS as JSON_FORMS
from crenel.operators.encode.json_fields import JsonFields
from crenel.operators.encode.records import RecordArguments
from crenel.operators.plan import AnonymizationPlan
from crenel.state.block import Block
from tests.support.encoding import tuples_of
from tests.support.example_counts import IS_NIGHTLY
from tests.support.layouts import encode_plan, layout_of
from tests.support.odd_records import csv_line, json_record

BATCH = 20
SEEDS = st.integers(0, 2**48 - 1)
"""Of a batch of records; hypothesis prints the one that fails."""

SHARE = settings(max_examples=1250 if IS_NIGHTLY else 25)
"""Four fuzzes: 2,000 records by default, 100,000 by `make laws`."""

JSON_FIELDS = tuple(
    (path, CellType(kind, 10, 2)) for path in (("a",), ("a", "b"), ("b", 0), ("c",), ()) for kind in JSON_FORMS
)
CSV_KINDS = (
    *(CellType(name) for name in ("STRING", "BOOLEAN", "FLOAT", "DOUBLE", "DATE", "INT", "BIGINT")),
    *(CellType("DECIMAL", 10, 2), CellType("DECIMAL", 38, 9), CellType("TIMESTAMP", 3), CellType("TIMESTAMP", 6)),
)
CSV_WAYS: tuple[dict[str, Any], ...] = ({}, {"delimiter": ";", "quote": "'"}, {"quote": None, "null": "NaN"})


def all_forms(fields: JsonFields | CsvFields) -> RecordArguments:
    """Return each field in each form of its type."""
    if isinstance(fields, JsonFields):
        forms = [JSON_FORMS[kind.name] for _, kind in fields.fields]
    else:
        forms = [CSV_FORMS[kind.name] for _, kind in fields.fields]
    return RecordArguments(fields, tuple((number, form) for number, forms_of in enumerate(forms) for form in forms_of))


def read(plan: RecordArguments, records: list[bytes | None]) -> list[list[Any]]:
    return [column.tolist() for column in plan.read(pd.Series(records, dtype=object))]


def require_as_alone(plan: RecordArguments, records: list[bytes | None]) -> None:
    """Require that each record gives the same without its neighbors, and that none makes the reader raise.

    A column of whole numbers comes as float64 where a neighbor has none, and every user of it takes it as float64.
    """
    alone = [read(plan, [record]) for record in records]
    for argument, column in enumerate(read(plan, records)):
        for row, value in enumerate(column):
            own = alone[row][argument][0]
            if (plan.arguments[argument] or (0, ""))[1] == "number":
                value, own = float(value), float(own)
            assert value == own or (pd.isna(value) and pd.isna(own)), (plan.arguments[argument], records[row])


def some_records(seed: int, kind: str) -> tuple[list[bytes | None], dict[str, Any]]:
    chance = random.Random(seed)
    if kind == "json":
        return [json_record(chance) for _ in range(BATCH)], {}
    way = chance.choice(CSV_WAYS)
    signs = way.get("quote") or '"', way.get("delimiter", ",")
    return [csv_line(chance, len(CSV_KINDS), *signs) for _ in range(BATCH)], way


@pytest.mark.parametrize("kind", ["json", "csv"])
@SHARE
@given(seed=SEEDS)
def test_any_record_is_read_as_if_it_were_alone(kind: str, seed: int) -> None:
    records, way = some_records(seed, kind)
    csv = CsvFields(len(CSV_KINDS), tuple(enumerate(CSV_KINDS)), **way)
    require_as_alone(all_forms(JsonFields(JSON_FIELDS) if kind == "json" else csv), records)


AREAS = from_paths([(label, "*") for label in ("ann", "é", "", "7", "true", " ")])
COLUMNS = {
    "age": "INT",
    "paid": "DECIMAL(10, 2)",
    "area": "STRING",
    "day": "STRING",
    "illness": "STRING",
    "sick": "BOOLEAN",
    "note": "STRING",
    "real": "DOUBLE",
    "person": "BIGINT",
    "ms": "BIGINT",
    "name": "STRING",
}
DAYS = Dates((date(2024, 1, 1), date(2024, 12, 31)))
POLICY = Policy(
    quasi_identifiers={
        "age": Numeric((-100, 100)),
        "paid": Numeric(),
        "area": Categorical(AREAS.with_missing()),
        "day": Categorical(DAYS),
    },
    sensitive=("illness", "sick"),
    passthrough=("note", "real"),
    subject="person",
    event_time="ms",
    reference="name",
    missing="value",
)
PATHS = dict(zip(COLUMNS, ("a", "b", "a", "c", "a.b", "b", "c", "a", "b", "a", "c"), strict=True))


def encoding(kind: str, **way: Any) -> tuple[AnonymizationPlan, RecordArguments]:
    """Return the options with which a job reads records of JSON, or lines of CSV."""
    found = layout_of(POLICY, COLUMNS)
    if kind == "json":
        typed = {name: {"type": sql, "path": f"$.{PATHS[name]}"} for name, sql in COLUMNS.items()}
        records: Any = JsonRecords.model_validate({"column": "record", "fields": typed})
    else:
        way = {"null_literal" if name == "null" else name: value for name, value in way.items()}
        records = CsvRecords.model_validate({"column": "record", "fields": COLUMNS, **way})
    plan = records.arguments(found.plan.arguments)
    assert plan is not None
    return encode_plan(found, Shards(3), (0, 1, 2), SubjectKey.of(b"a key")), plan


def outcome(encoder: ContainedEncoder, plan: AnonymizationPlan, *batches: list[bytes | None]) -> dict[Any, list[Any]]:
    """Return the tuples of each shard, and what was rejected, in order."""
    found: dict[Any, list[Any]] = {}
    for batch in batches:
        keys, blobs = encoder.encode(pd.Series(batch, dtype=object))
        assert len(keys) == len(blobs) == len(batch)
        for blob in filter(None, blobs):
            block = Block.from_bytes(blob, members_schema(plan.sensitive + plan.noised + plan.passthrough))
            if len(block):
                found.setdefault(block.shard, []).extend(tuples_of(block))
            bad = block.rejected
            rows = zip(bad.column.tolist(), bad.reason.tolist(), bad.event_time.tolist(), bad.reference, strict=True)
            if len(bad.column):
                found.setdefault("rejected", []).extend(
                    (plan.checked[column], REJECTIONS[reason], *more) for column, reason, *more in rows
                )
    return found


@pytest.mark.parametrize("kind", ["json", "csv"])
@SHARE
@given(seed=SEEDS)
def test_any_record_is_encoded_as_if_it_were_alone_and_none_is_unreadable(kind: str, seed: int) -> None:
    records, way = some_records(seed, kind)
    plan, read_of = encoding(kind, **way)
    encoder = ContainedEncoder(plan, read_of)
    found = outcome(encoder, plan, records)
    assert found == outcome(encoder, plan, *([record] for record in records))
    assert [row for row in found.get("rejected", []) if row[1] == "unreadable"] == []
    assert sum(map(len, found.values())) == len(records)


@dataclass(frozen=True)
class Faulty:
    """A reader with defects: it raises for some records, or for one of its two fields."""

    def columns(self, records: pa.BinaryArray) -> list[Any]:
        read = [record.decode() for record in records.to_pylist()]
        if "parse" in read:
            raise KeyError("a value of the record")
        return [FaultyColumn(read, "age"), FaultyColumn(read, "note")]


@dataclass(frozen=True)
class FaultyColumn:
    records: list[str]
    name: str

    @property
    def number(self) -> Any:
        return np.array([float(text) if text.isdigit() else 7.0 for text in self.text.to_pylist()])

    @property
    def text(self) -> pa.StringArray:
        if self.name in self.records:
            raise OverflowError("a value of the record")
        return pa.array(self.records, pa.string())


@dataclass(frozen=True)
class FaultyBuilder(Mask):
    """A hierarchy with a defect: it raises for one value."""

    def finder(self) -> Any:
        def find(values: Any) -> Any:
            if "area" in values.tolist():
                raise ZeroDivisionError("a value of the record")
            return np.zeros(len(values), np.intp)

        return find


def faulty() -> tuple[AnonymizationPlan, RecordArguments]:
    builder = FaultyBuilder((1,), values=("a", "b"))
    area = Categorical(builder).named("area")
    policy = Policy(
        by_name((Numeric((0, 99)).named("age"), area)),
        passthrough=("note",),
        event_time="ms",
        reference="line",
    )
    columns = {"age": "INT", "area": "STRING", "note": "STRING", "ms": "BIGINT NOT NULL", "line": "STRING"}
    found = layout_of(policy, columns)
    forms: dict[str, Any] = {"age": (0, "number"), "note": (1, "text"), "area": (1, "text")}
    forms_of = tuple(forms.get(name) for name, _ in found.plan.arguments)
    return encode_plan(found, Shards(), (5,), SubjectKey.of(b"a key")), RecordArguments(Faulty(), forms_of)


def test_a_record_that_meets_a_defect_is_rejected_alone_with_its_field(caplog: pytest.LogCaptureFixture) -> None:
    plan, read_of = faulty()
    kinds = ["parse", "age", "note", "area"]
    records = ["1", "2", "parse", "3", "age", "4", "note", "note", "5", "area", "6", "7"]
    series = (
        pd.Series([record.encode() for record in records], dtype=object),
        pd.Series(range(1000, 1000 + len(records)), dtype=np.int64),
        pd.Series([f"line {number}" for number in range(len(records))]),
    )
    keys, blobs = ContainedEncoder(plan, read_of).encode(*series)
    assert len(keys) == len(blobs) == len(records)
    blocks = [Block.from_bytes(blob, members_schema(plan.passthrough)) for blob in blobs if blob is not None]
    notes = [note for block in blocks for note in block.members["note"].to_pylist()]
    assert notes == [record for record in records if record not in kinds]
    rejected = [
        (plan.checked[column], REJECTIONS[reason], time, line)
        for block in blocks
        for column, reason, time, line in zip(
            block.rejected.column,
            block.rejected.reason,
            block.rejected.event_time,
            block.rejected.reference,
            strict=True,
        )
    ]
    columns = {"parse": None, "age": "age", "note": "area", "area": "area"}
    assert rejected == [
        (columns[record], "unreadable", 1000 + number, f"line {number}")
        for number, record in enumerate(records)
        if record in kinds
    ]
    # A line for each defect and no more, of which none tells a value.
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len({line.partition("raises ")[2] for line in messages}) == 3
    for name in ("KeyError", "OverflowError", "ZeroDivisionError"):
        assert len([line for line in messages if f"raises {name} at operators/encode/" in line]) == 1
    assert "a value of the record" not in "".join(messages)
    assert not any(record.exc_info for record in caplog.records)


def test_a_source_that_is_the_same_in_all_rows_still_stops_the_job() -> None:
    plan, _ = encoding("json")
    with pytest.raises(ValueError, match="source: its query gives the same in all rows"):
        ContainedEncoder(plan).encode(*range(20))
