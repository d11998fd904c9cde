"""Lines of JSON: read back they are the records, and only sinks that Flink would write alike get them."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.jobs.pipeline.sink_columns import Column, lines_of
from crenel.operators.json_lines import LineWriter

REAL = st.floats() | st.none()
MEMBER = st.tuples(st.text() | st.none(), st.integers(-(2**63), 2**63 - 1) | st.none(), st.booleans() | st.none(), REAL)
RELEASE = st.tuples(st.integers(), st.text(), st.lists(MEMBER, min_size=1, max_size=4))


@given(st.lists(RELEASE, min_size=1, max_size=5))
def test_each_line_is_a_record(releases: list[tuple[int, str, list[tuple[Any, ...]]]]) -> None:
    writer = LineWriter(
        {"low": "LONG", 'a "b"\n': "STRING"}, {"t": "STRING", "n": "LONG", "b": "BOOLEAN", "r": "DOUBLE"}
    )
    ends = [0]
    for *_, members in releases:
        ends.append(ends[-1] + len(members))
    members = [list(column) for column in zip(*(member for *_, some in releases for member in some), strict=True)]
    generalization = [[low for low, *_ in releases], [label for _, label, _ in releases]]
    texts = writer.lines(generalization, members, ends)
    assert len(texts) == len(releases)
    for (low, label, expected), text, (start, stop) in zip(releases, texts, pairwise(ends), strict=True):
        read = [list(json.loads(line).values()) for line in text.split("\n")]
        assert len(read) == stop - start
        assert read == [[low, label, *member[:3], _written(member[3])] for member in expected]


def _written(real: float | None) -> float | str | None:
    """Return a number as Flink writes it to JSON, which has no signs for some."""
    if real is None or math.isfinite(real):
        return real
    return "NaN" if math.isnan(real) else "Infinity" if real > 0 else "-Infinity"


def test_records_without_members_repeat_their_generalization() -> None:
    assert LineWriter({"low": "LONG"}, {}).lines([[1, 2, 3]], [[True] * 3], [0, 2, 3, 3]) == [
        '{"low":1}\n{"low":1}',
        '{"low":2}',
        "",
    ]


KAFKA = {"connector": "kafka", "topic": "released", "format": "json"}


@pytest.mark.parametrize(
    ("options", "types", "qualifies"),
    [
        (KAFKA, ("INT", "STRING", "BIGINT", "DOUBLE", "BOOLEAN"), True),
        (KAFKA, ("STRING", "DECIMAL(5, 2)"), False),
        (KAFKA, ("STRING", "TIMESTAMP(3)"), False),
        (KAFKA | {"json.encode.ignore-null-fields": "true"}, ("STRING",), False),
        (KAFKA | {"key.format": "json"}, ("STRING",), False),
        (KAFKA | {"format": "avro"}, ("STRING",), False),
        (KAFKA | {"connector": "filesystem"}, ("STRING",), False),
    ],
)
def test_only_plain_json_for_kafka_is_written_by_the_operator(
    options: dict[str, str], types: tuple[str, ...], qualifies: bool
) -> None:
    columns = [Column(f"c{number}", kind, f"m{number}") for number, kind in enumerate(types)]
    assert lines_of(options, columns) == (tuple(column.name for column in columns) if qualifies else None)
