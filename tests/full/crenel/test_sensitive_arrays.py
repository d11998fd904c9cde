"""Sensitive arrays of many values, and in the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa

import crenel
from tests.crenel.test_sensitive_arrays import ILLNESSES, K, records, settings


def test_evidence_reads_elements_of_days() -> None:
    of = settings("nearest", crenel.Privacy(k=K, l=2))
    data = records(400)
    days = {illness: date(2024, 2, 1 + place) for place, illness in enumerate(ILLNESSES)}
    sets = [[days[each] for each in illnesses] for illnesses in data["illnesses"].to_pylist()]
    data = data.set_column(2, "illnesses", pa.array(sets, pa.list_(pa.date32())))
    result = crenel.anonymize(data, of)
    assert "Diversity of illnesses" in crenel.report(result, of, data=data)
    assert crenel.plan(data, of, replays=2, rows=300).settings
    assert crenel.why(data, of, rows=300)
    assert crenel.attack(data, of, seeds=1, targets=50).attacks


def rejected(values: Sequence[Any], kind: pa.DataType, **policy: Any) -> list[tuple[int, str, str]]:
    data = pa.table(
        {"person": [f"p{i}" for i in range(len(values))], "age": [1] * len(values), "illnesses": pa.array(values, kind)}
    )
    result = crenel.anonymize(data, settings("mondrian", crenel.Privacy(k=2), **policy), row_numbers=True)
    assert result.released.num_rows + result.suppressed.num_rows + result.rejected.num_rows == len(values)
    return [(row["row"], row["column"], row["reason"]) for row in result.rejected.to_pylist()]


def test_arrays_without_values_are_kept_and_those_with_missing_or_too_many_are_rejected() -> None:
    values = [
        ["flu"],
        [],
        None,
        ["flu", None],
        ["a", "b", "c"],
        ["a", "b", "c", "d"],
        ["a"] * 9,
        [str(i) for i in range(10**6)],
    ]
    wrong = [(5, "illnesses", "too_many_values"), (7, "illnesses", "too_many_values")]
    missing = [(2, "illnesses", "missing"), (3, "illnesses", "missing")]
    for kind in (pa.list_(pa.string()), pa.large_list(pa.large_string())):
        assert sorted(rejected(values, kind)) == sorted(missing + wrong)
        assert rejected(values, kind, missing="value") == wrong
    whole = [[0], [], None, [0, None], [0, 1, -1], [0, 1, 2, 3], [0] * 9]
    assert sorted(rejected(whole, pa.list_(pa.int16()))) == [*missing, wrong[0]]
    # 0 is a value like others, and not the end of the values.
    assert rejected([[0, 1], [0, 2], [0, 3], [4]], pa.list_(pa.int64()), arrays={"illnesses": 2}) == []
