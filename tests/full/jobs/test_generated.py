"""A source that Flink takes for one without an end, and that ends: so does the job, with all that it read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.launch import Host, rows_of

pytestmark = pytest.mark.flink

TEXT = """
policy: {quasi_identifiers: {x: {type: numeric, domain: [0, 9]}}, passthrough: [number], event_time: ts}
privacy: {k: 2}
castle: {delay: {event_time: 20 s}}
source:
  ddl: >-
    CREATE TEMPORARY TABLE source (number INT, x AS MOD(number, 10), ts AS TO_TIMESTAMP_LTZ(number * 1000, 3),
    WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'fields.number.kind' = 'sequence',
    'fields.number.start' = '1', 'fields.number.end' = '300')
sinks: {released: {connector: filesystem, path: FOLDER/released, format: csv}}
"""


def test_a_generated_sequence_ends_the_run_and_nothing_is_lost(mini: Host, tmp_path: Path) -> None:
    configuration = tmp_path / "sequence.yaml"
    configuration.write_text(TEXT.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    done = mini.crenel("run", configuration, "--json")
    assert done.returncode == 0, done.stderr
    released = rows_of(tmp_path / "released", ("x_min", "x_max", "number"))
    assert sorted(int(row["number"]) for row in released) == list(range(1, 301))
