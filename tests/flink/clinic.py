"""A stream for jobs that have every feature at once, as CSV, as nested JSON, and as a table for a program."""

from __future__ import annotations

import csv
import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

ROWS = 900
TOWNS = {'The "Old" Town': "north", "Ash, upper": "north", "Two\nLines": "south", "東京 港区": "south"}
PARTS = {"cold": "lungs", "flu": "lungs", 'a "bad" back': "back", "gout, or so": "joints", "頭痛": "head"}
ILLNESSES = [*PARTS]
START = datetime(2026, 3, 29, 0, 30, tzinfo=timezone.utc)  # the night in which an hour is missing in Europe

COLUMNS = {
    "line": pa.int64(),
    "id": pa.int64(),
    "person": pa.string(),
    "name": pa.string(),
    "age": pa.int32(),
    "town": pa.string(),
    "wage": pa.float64(),
    "height": pa.int32(),
    "born": pa.date32(),
    "illness": pa.string(),
    "codes": pa.list_(pa.int32()),
    "seen": pa.timestamp("ms", "UTC"),
}

WRONG: dict[int, tuple[str, Any, str]] = {
    11: ("age", 999, "outside_domain"),
    23: ("town", "Atlantis", "unknown_category"),
    37: ("illness", None, "missing"),
    53: ("person", None, "missing"),
    71: ("height", 99, "outside_domain"),
}
"""Column, value and reason of the records that are rejected, by their place in each hundred."""


def records() -> list[dict[str, Any]]:
    """Return visits of some 200 persons in the order of their times; every fortieth has no age."""
    draw = random.Random(3)
    homes = [(draw.randrange(15, 95), draw.choice([*TOWNS]), draw.randrange(140, 200)) for _ in range(200)]
    found = []
    for number in range(ROWS):
        who = draw.randrange(len(homes))
        age, town, height = homes[who]
        row = {
            "line": number + 1,
            "id": number + 10_000,
            "person": f"p{who}",
            "name": f"Secret {who}",
            "age": None if number % 40 == 7 else age,
            "town": town,
            "wage": round(draw.lognormvariate(7.5, 0.8), 2),
            "height": height,
            "born": datetime(2026 - age, 1 + who % 12, 1, tzinfo=timezone.utc).date(),
            "illness": draw.choices(ILLNESSES, range(len(ILLNESSES), 0, -1))[0],
            "codes": sorted({draw.randrange(9) for _ in range(1 + number % 2)}),
            "seen": START + number * timedelta(seconds=20, milliseconds=125),
        }
        if number % 100 in WRONG:
            column, value, _ = WRONG[number % 100]
            row[column] = value
        found.append(row)
    return found


def table() -> pa.Table:
    """Return the records as a program gets them."""
    return pa.Table.from_pylist(records(), pa.schema(COLUMNS))


def nested_table() -> pa.Table:
    """Return the records in nested form, as a program gets them; those of JSON have no time."""
    return pa.Table.from_pylist([_nested(row) for row in records()])


def write(folder: Path) -> None:
    """Write the records as ``in.csv`` and as ``in.json``, and the hierarchies of towns and illnesses."""
    with (folder / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(map(_text, row.values()) for row in records())
    lines = [json.dumps(_nested(row), default=str) for row in records()]
    (folder / "in.json").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name, parts in (("towns", TOWNS), ("illness", PARTS)):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=";").writerows([of, above, "any"] for of, above in parts.items())


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}Z"
    return ";".join(map(str, value)) if isinstance(value, list) else value


def _nested(row: dict[str, Any]) -> dict[str, Any]:
    patient = {"id": row["person"], **{name: row[name] for name in ("age", "height", "born")}}
    visit = {"illness": row["illness"], "codes": row["codes"]}
    return {
        **{name: row[name] for name in ("line", "id", "wage")},
        "patient": patient | {"home": {"town": row["town"]}},
        "visit": visit,
    }
