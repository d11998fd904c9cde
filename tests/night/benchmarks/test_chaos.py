"""Judge of outputs after kills: it finds lost rows, rows published twice, and groups that are too small."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import Any

import pytest

from benchmarks.chaos.jobs import OutputFaults, rows, wrong

_ROWS = 400
_SUPPRESSED, _REJECTED = 10, 4
_PUBLISHED = list(rows(_ROWS))[_SUPPRESSED + _REJECTED :]


def _line(*values: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()


def _left(*, kafka: bool) -> dict[str, list[Any]]:
    """Return all rows under one generalization, except some that were suppressed and some that were rejected."""
    released = [
        {"age_min": 0, "age_max": 99, "town": "*", "illness": row["illness"], "id": row["id"]} for row in _PUBLISHED
    ]
    suppressed = [
        {"reason": "outlier", "shard": n % 4, "position": n // 4, "event_time": ""} for n in range(_SUPPRESSED)
    ]
    if not kafka:
        rejected: list[Any] = [_line("age", "missing", "", "")] * _REJECTED
        return {
            "released": [_line(*row.values()) for row in released],
            "suppressed": [_line(*row.values()) for row in suppressed],
            "rejected": rejected,
        }
    return {
        "released": released,
        "suppressed": suppressed,
        "rejected": [{"reference": f"0:{n}"} for n in range(_REJECTED)],
    }


@pytest.mark.parametrize("kafka", [False, True])
def test_nothing_is_wrong_with_rows_that_leave_once(*, kafka: bool) -> None:
    assert wrong(_left(kafka=kafka), _ROWS, kafka=kafka) == OutputFaults(_ROWS, 0, 0)


@pytest.mark.parametrize("kafka", [False, True])
@pytest.mark.parametrize("output", ["released", "suppressed", "rejected"])
def test_a_row_that_is_nowhere_is_lost(output: str, *, kafka: bool) -> None:
    left = _left(kafka=kafka)
    left[output] = left[output][1:]
    assert wrong(left, _ROWS, kafka=kafka) == OutputFaults(_ROWS, 1, 0)


@pytest.mark.parametrize("kafka", [False, True])
@pytest.mark.parametrize("output", ["released", "suppressed", "rejected"])
def test_a_row_that_left_twice_is_counted(output: str, *, kafka: bool) -> None:
    left = _left(kafka=kafka)
    left[output] = [*left[output], left[output][0]]
    assert wrong(left, _ROWS, kafka=kafka) == OutputFaults(_ROWS, 0, 1)


@pytest.mark.parametrize("twice", ["released", "suppressed", "rejected"])
def test_a_row_that_is_lost_shows_though_another_left_twice(twice: str) -> None:
    left = _left(kafka=True)
    left[twice] = [*left[twice], left[twice][0]]
    left["released"] = [row for row in left["released"] if row["id"] != _ROWS - 1]
    assert wrong(left, _ROWS, kafka=True) == OutputFaults(_ROWS, 1, 1)


@pytest.mark.parametrize("twice", ["released", "suppressed"])
def test_a_line_that_is_lost_shows_though_another_left_twice(twice: str) -> None:
    left = _left(kafka=False)
    left[twice] = [*left[twice], left[twice][0]]
    left["released"] = [line for line in left["released"] if not line.endswith(f",{_ROWS - 1}")]
    assert wrong(left, _ROWS, kafka=False) == OutputFaults(_ROWS, 1, 1)


@pytest.mark.parametrize("members", [7, 8])
def test_persons_are_counted_and_not_rows(members: int) -> None:
    by_person: dict[str, list[dict[str, Any]]] = {}
    for row in _PUBLISHED:
        by_person.setdefault(row["person"], []).append(row)
    chosen = sorted(by_person.values(), key=len)[-members:]
    mine = {row["id"] for of_one in chosen for row in of_one}
    assert len(mine) > members
    left = _left(kafka=True)
    for row in left["released"]:
        row["town"] = "north" if row["id"] in mine else "*"
    assert asdict(wrong(left, _ROWS, kafka=True))["thin"] == (members < 8)


def test_a_generalization_with_one_illness_is_told() -> None:
    left = _left(kafka=True)
    for row in left["released"]:
        row["town"] = "north" if row["illness"] == "flu" else "*"
    assert wrong(left, _ROWS, kafka=True).thin == 1
