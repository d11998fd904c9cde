"""The stream of ``benchmarks/real.yaml``: Adult repeated, with persons, event time and more published columns."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import adult
from crenel.anonymity.model.attributes import by_name
from crenel.anonymity.regions.loss import EncodedSample
from crenel.anonymity.regions.private import learn_privately
from crenel.jobs.config.load import Config
from crenel.jobs.config.source import Source
from crenel.jobs.formats.csv_records import CsvRecords
from crenel.jobs.formats.json_records import JsonRecords
from crenel.regions_file import regions_text

CONFIGURATION = Path(__file__).with_name("real.yaml")
PERSONS = 100_000
MILLISECONDS = 10
"""Between a row and the next."""

_START = np.datetime64("2026-01-01T00:00:00.000", "ms")
_CHUNK = 300_000
_ENDS = ((17, 90), (13769, 1484705), (1, 16), (0, 99999), (0, 4356), (1, 99))


def source(path: Path, form: str) -> str:
    """Return the options of the source's table.

    ``form``: csv, json, nested (JSON, the columns of Adult in an object), or records and lines (JSON and CSV as text).
    """
    if form in ("records", "lines"):
        return f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'raw'"
    null = ", 'csv.null-literal' = ''" if form == "csv" else ""
    written = "json" if form == "nested" else form
    return f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{written}'{null}"


def nested(settings: Config) -> Config:
    """Return the job with the columns of Adult as fields of a ROW, which take their roles by paths."""
    policy, section = settings.policy, "census"
    attributes = by_name(found.named(f"{section}.{name}") for name, found in policy.quasi_identifiers.items())
    sensitive = tuple(f"{section}.{name}" for name in policy.sensitive)
    fields = [f"`{name}` INT" for name in adult.NUMERIC]
    fields += [f"`{name}` STRING" for name in (*adult.CATEGORICAL, *policy.sensitive)]
    ddl = f"""
        CREATE TEMPORARY TABLE source (
          {section} ROW<{", ".join(fields)}>, person BIGINT, visit BIGINT, paid DECIMAL(10, 2), seen TIMESTAMP(3),
          ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH ({os.environ["BENCH_SOURCE"]})"""
    policy = replace(policy, quasi_identifiers=attributes, sensitive=sensitive, drop=("ms",))
    return replace(settings, settings=replace(settings.settings, policy=policy), source=Source(ddl=ddl))


def records() -> Source:
    """Return the same columns as fields of records of JSON, of which Flink reads the two times."""
    whole = dict.fromkeys(adult.NUMERIC, "INT") | {"person": "BIGINT", "visit": "BIGINT"}
    texts = dict.fromkeys((*adult.CATEGORICAL, "income", "workclass"), "STRING")
    fields = whole | texts | {"paid": "DECIMAL(10, 2)", "seen": "TIMESTAMP(3)"}
    return Source(
        ddl=f"""
        CREATE TEMPORARY TABLE source (
          record STRING, ts AS TO_TIMESTAMP_LTZ(CAST(JSON_VALUE(record, '$.ms') AS BIGINT), 3),
          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH ({os.environ["BENCH_SOURCE"]})""",
        records=JsonRecords.model_validate({"column": "record", "fields": fields}),
    )


def lines() -> Source:
    """Return the same columns as fields of lines of CSV, of which Flink reads the event time alone."""
    whole = dict.fromkeys(adult.NUMERIC, "INT")
    texts = dict.fromkeys((*adult.CATEGORICAL, "income", "workclass"), "STRING")
    others = {"person": "BIGINT", "visit": "BIGINT", "paid": "DECIMAL(10, 2)", "seen": "TIMESTAMP(3)", "ms": "BIGINT"}
    fields = whole | texts | others
    return Source(
        ddl=f"""
        CREATE TEMPORARY TABLE source (
          line STRING, ts AS TO_TIMESTAMP_LTZ(CAST(SPLIT_INDEX(line, ',', {len(fields) - 1}) AS BIGINT), 3),
          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH ({os.environ["BENCH_SOURCE"]})""",
        records=CsvRecords.model_validate({"column": "line", "fields": fields}),
    )


def live(settings: Config) -> Config:
    """Return the job with the moment at which a row is read as its event time."""
    ddl = settings.source.ddl.replace("TO_TIMESTAMP_LTZ(ms, 3)", "CAST(CURRENT_TIMESTAMP AS TIMESTAMP_LTZ(3))")
    return replace(settings, source=replace(settings.source, ddl=ddl))


def partition_file(folder: Path, cells: int = 64) -> Path:
    """Return a file of cells in ``folder``, made if absent: they count as learned from other persons."""
    path = folder / f"cells-{cells}.yaml"
    if not path.exists():
        tuples = adult.stream()
        sample = EncodedSample(tuples.numeric, tuples.categorical)
        tree = learn_privately(tuples.policy, sample, cells, len(tuples) / cells / 2, 1e6, np.random.default_rng(0))
        path.write_text(regions_text(tuples.policy, replace(tree, epsilon=0.0), len(tuples), 0), encoding="utf-8")
    return path


def generated(rows: int) -> str:
    """Return the same table from Flink's generator: independent values of the same domains."""
    start, drawn = int(_START.astype(np.int64)), 1
    columns = []
    for name, (low, high) in zip(adult.NUMERIC, _ENDS, strict=True):
        columns.append(f"`{name}` AS CAST({low} + MOD(r / {drawn}, {high - low + 1}) AS INT)")
        drawn *= 7
    for name in (*adult.CATEGORICAL, "income", "workclass"):
        values = sorted(adult.frame()[name].unique())
        choices = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
        columns.append(f"`{name}` AS ELT(CAST(1 + MOD(r / {drawn}, {len(values)}) AS INT), {choices})")
        drawn *= 7
    event_time = f"TO_TIMESTAMP_LTZ({start} + n * {MILLISECONDS}, 3)"
    return f"""
        CREATE TEMPORARY TABLE source (
          r BIGINT, n BIGINT, {", ".join(columns)},
          person AS MOD(r, {PERSONS}), visit AS n, paid AS CAST(MOD(r, 10000000) / 100 AS DECIMAL(10, 2)),
          seen AS CAST({event_time} AS TIMESTAMP(3)), ts AS {event_time},
          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH (
          'connector' = 'datagen', 'rows-per-second' = '100000000', 'fields.r.min' = '0',
          'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{rows - 1}'
        )"""


def rows_file(rows: int, folder: Path, form: str = "csv", *, half_rejected: bool = False) -> Path:
    """Return a file of so many rows in ``folder``, made if absent; ``half_rejected``: each second age is missing."""
    form = {"records": "json", "lines": "csv"}.get(form, form)
    path = folder / f"real-{rows}{'-half' if half_rejected else ''}.{form}"
    if path.exists():
        return path
    frame = adult.frame()[[*adult.NUMERIC, *adult.CATEGORICAL, "income", "workclass"]]
    random = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, rows, _CHUNK):
            number = np.arange(first, min(first + _CHUNK, rows))
            part = frame.iloc[number % len(frame)].reset_index(drop=True)
            times = number * MILLISECONDS + _START.astype(np.int64)
            seen = (_START + number * MILLISECONDS).astype(str)
            part["person"] = random.integers(0, PERSONS, len(number))
            part["visit"] = number
            part["paid"] = random.integers(0, 10**7, len(number)) / 100
            part["seen"] = pd.Series(seen).str.replace("T", " ")
            part["ms"] = times
            if half_rejected:
                part["age"] = part["age"].astype(object).where(number % 2 == 0, None)
            if form == "csv":
                part.to_csv(file, index=False, header=False)
            else:
                text = part.to_json(orient="records", lines=True)
                if form == "nested":  # all columns before the person are those of Adult
                    text = text.replace('{"age"', '{"census":{"age"').replace(',"person"', '},"person"')
                file.write(text)
    return path
