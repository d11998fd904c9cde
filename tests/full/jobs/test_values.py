"""A job and a program publish the same values of each type, in each role, also of times before 1970."""

from __future__ import annotations

from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

import crenel
from crenel.anonymity.model.values import texts
from crenel.jobs.pipeline.sql_expressions import literal
from crenel.operators.column_types import parse
from tests.crenel.test_values import TYPES, Type
from tests.support.launch import Host, rows_of

pytestmark = pytest.mark.flink

ROWS = 24
DATES: dict[str, Any] = {"dates": {"domain": [date(1900, 1, 1), date(2024, 12, 31)], "levels": ["day", "month"]}}


def valid(of: Type) -> list[tuple[Any, str]]:
    """Return the values of a type that are not missing, with their texts."""
    return [(value, text) for value, text in zip(of.values, of.texts, strict=True) if text]


def columns() -> tuple[dict[str, str], dict[str, pa.Array], dict[str, Any]]:
    """Return the expression and the values of each column, and the policy."""
    sql, arrow, quasi, sensitive, kept = {}, {}, {}, [], []
    for number, of in enumerate(of for of in TYPES.values() if of.sql and not pa.types.is_dictionary(of.arrow)):
        values, kind = valid(of), parse(of.sql or "")
        cases = " ".join(f"WHEN {i} THEN CAST({literal(text)} AS {of.sql})" for i, (_, text) in enumerate(values))
        made = pa.array([values[row % len(values)][0] for row in range(ROWS)], of.arrow)
        roles = {"l": {"type": "categorical", "hierarchy": f"c{number}.csv", "publish": "set"}}
        if of.numbers and kind.name != "STRING" and not (kind.name == "DECIMAL" and (kind.precision or 0) > 15):
            roles |= {"i": {"type": "numeric"}, "m": {"type": "numeric", "publish": "mean"}}
        if of.times:
            roles |= {"d": {"type": "categorical", "hierarchy": DATES, "publish": "set"}}
            roles |= {"w": {"type": "categorical", "hierarchy": {"weekdays": {}}, "publish": "set"}}
        if of.times and (kind.precision or 0) <= 3:
            roles |= {"i": {"type": "numeric"}, "e": {"type": "numeric", "publish": "median"}}
        quasi |= {f"c{number}{role}": section for role, section in roles.items()}
        sensitive.append(f"c{number}s")
        kept.append(f"c{number}p")
        for role in (*roles, "s", "p"):
            sql[f"c{number}{role}"] = f"CASE MOD(id, {len(values)}) {cases} END"
            arrow[f"c{number}{role}"] = made
    return sql, arrow, {"quasi_identifiers": quasi, "sensitive": sensitive, "passthrough": ["id", *kept]}


def written(column: pa.ChunkedArray) -> list[str]:
    """Return values in the form that ``plain`` gives those of a CSV file."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    found = (
        [";".join(each) for each in column.to_pylist()] if pa.types.is_list(column.type) else texts(column).to_pylist()
    )
    return list(map(plain, found))


def plain(text: str) -> str:
    """Return the shortest form of a number, of a Boolean, and of a time without a zone or zeros at its end."""
    if text.lower() in ("true", "false"):
        return text.upper()
    try:
        number = Decimal(repr(float(text)) if "E" in text else text)  # Java 17 writes more digits than needed
        return str(number.normalize() + 0)
    except (InvalidOperation, ValueError):
        head, _, fraction = text.removesuffix("Z").replace("T", " ").partition(".")
        return f"{head}.{fraction.rstrip('0')}".rstrip(".")


def test_a_job_and_a_program_publish_the_same_of_each_type(mini: Host, tmp_path: Path) -> None:
    sql, arrow, policy = columns()
    for number, of in enumerate(of for of in TYPES.values() if of.sql and not pa.types.is_dictionary(of.arrow)):
        lines = "".join(f"{text};*\n" for _, text in valid(of))
        (tmp_path / f"c{number}.csv").write_text(lines, encoding="utf-8")
    (tmp_path / "in.csv").write_text("".join(f"{row}\n" for row in range(ROWS)), encoding="utf-8")
    selected = ", ".join(f"{expression} AS {name}" for name, expression in sql.items())
    content = {
        "policy": policy,
        "privacy": {"k": 4},
        "algorithm": "nearest",
        "nearest": {"delay": {"tuples": ROWS}},
        "seed": 7,
        "source": {
            "ddl": "CREATE TEMPORARY TABLE source (id INT) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path / 'in.csv'}', 'format' = 'csv')",
            "query": f"SELECT id, {selected} FROM source",
        },
        "sinks": {
            name: {"connector": "filesystem", "path": str(tmp_path / name), "format": "csv"}
            for name in ("released", "rejected")
        },
    }
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(content), encoding="utf-8")
    done = mini.crenel("run", job)
    assert done.returncode == 0, done.stderr
    table = pa.table({"id": pa.array(range(ROWS), pa.int32()), **arrow})
    found = crenel.anonymize(table, crenel.load(job))
    assert found.summary.rejected == {}
    names = found.released.column_names
    rows = {int(row["id"]): row for row in rows_of(tmp_path / "released", names)}
    assert len(rows) == found.released.num_rows == ROWS
    ids = found.released["id"].to_pylist()
    differing = {
        (name, ours, rows[row][name])
        for name in names
        for ours, row in zip(written(found.released[name]), ids, strict=True)
        if ours != plain(rows[row][name])
    }
    assert not differing
