"""A stream of changes as Debezium writes it: the effect of each kind of message."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.broker import Broker, connector
from tests.support.launch import Host

pytestmark = pytest.mark.flink

JOB = """
policy:
  subject: patient
  event_time: visited
  quasi_identifiers: {balance: {type: numeric, domain: [0, 10000]}}
  drop: [op, ts]
privacy: {k: 3}
algorithm: nearest
nearest: {delay: {tuples: 50}}
subject_key: a key for tests, of 16 bytes or more
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      record STRING,
      ts AS COALESCE(TO_TIMESTAMP_LTZ(TRY_CAST(JSON_VALUE(record, '$.ts_ms') AS BIGINT), 3), TO_TIMESTAMP_LTZ(0, 3)),
      WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE
    ) WITH ('connector' = 'filesystem', 'path' = 'FOLDER/changes', 'format' = 'raw')
  from_json:
    column: record
    fields:
      op: {type: STRING, path: $.op}
      patient: {type: STRING, path: $.after.patient}
      balance: {type: "DECIMAL(10, 2)", path: $.after.balance, encoding: base64}
      visited: {type: TIMESTAMP_LTZ(3), path: $.after.visited, encoding: microseconds}
  forget:
    ddl: |
      CREATE TEMPORARY TABLE forget (record STRING)
      WITH ('connector' = 'filesystem', 'path' = 'FOLDER/changes', 'format' = 'raw')
    query: SELECT JSON_VALUE(record, '$.before.patient') FROM forget WHERE JSON_VALUE(record, '$.op') = 'd'
sinks:
  released: {connector: filesystem, path: FOLDER/released, format: json}
  rejected: {connector: filesystem, path: FOLDER/rejected, format: json}
  forgotten: {connector: filesystem, path: FOLDER/forgotten, format: json}
"""
NOTHING = ['{"ts_ms": 1}', "null", '{"op": "t", "ts_ms": 1}']
"""A heartbeat, a null and a truncation."""


def envelope(op: str, number: int) -> str:
    state = {
        "patient": f"p{number % 40}",
        "balance": base64.b64encode((number * 100).to_bytes(4, "big")).decode(),
        "visited": (1_700_000_000 + number) * 1_000_000,
    }
    before, after = (state, None) if op == "d" else (None, state)
    return json.dumps({"op": op, "before": before, "after": after, "ts_ms": (1_700_000_000 + number) * 1000})


def rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for file in folder.rglob("part-*") for line in file.read_text("utf-8").splitlines()]


def test_each_change_is_a_record_and_each_deletion_a_request(mini: Host, tmp_path: Path) -> None:
    states = [envelope("rcu"[number % 3], number) for number in range(300)]
    lines = [*states, *(envelope("d", number) for number in range(300, 305)), *NOTHING]
    (tmp_path / "changes").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "job.yaml").write_text(JOB.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    done = mini.crenel("run", tmp_path / "job.yaml", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    released = rows(tmp_path / "released")
    assert len(released) + sum(summary["suppressed"].values()) + summary["forgotten"] == len(states)
    assert len(released) > 100
    assert {type(row["balance_min"]) for row in released} <= {int, float}
    assert {row["reason"] for row in rows(tmp_path / "rejected")} == {"missing"}
    assert len(rows(tmp_path / "rejected")) == summary["rejected"]["missing"] == 5 + len(NOTHING)
    assert len(rows(tmp_path / "forgotten")) == 5


def test_a_topic_has_tombstones_keys_and_headers(broker: Broker, mini: Host, tmp_path: Path) -> None:
    broker.create({"changes": 1})
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    states = [envelope("rcu"[number % 3], number) for number in range(300)]
    for line in [*states, *(envelope("d", number) for number in range(300, 305)), *[None] * 5, *NOTHING]:
        producer.produce("changes", line, key="a key", headers=[("trace", b"a header")])
    producer.flush(60)
    topic = (
        f"'connector' = 'kafka', 'topic' = 'changes', 'properties.bootstrap.servers' = '{broker.address}', "
        "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', "
    )
    own = (
        f"{topic}'key.format' = 'raw', 'key.fields' = 'row_key', 'value.fields-include' = 'EXCEPT_KEY', 'value.format'"
    )
    files = "'connector' = 'filesystem', 'path' = 'FOLDER/changes', 'format'"
    text = (
        JOB.replace(files, own, 1)
        .replace(files, f"{topic}'format'")
        .replace("drop: [op, ts]", "drop: [op, ts, row_key, headers]")
    )
    text = text.replace("record STRING,\n", "record STRING, row_key STRING, headers MAP<BYTES, BYTES> METADATA,\n", 1)
    text = text.replace("FOLDER", str(tmp_path)) + f"flink: {{pipeline.jars: '{connector().as_uri()}'}}\n"
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    done = mini.crenel("run", tmp_path / "job.yaml", "--json")
    assert done.returncode == 0, done.stderr
    summary, released = json.loads(done.stdout), rows(tmp_path / "released")
    assert len(released) + sum(summary["suppressed"].values()) + summary["forgotten"] == len(states)
    assert "row_key" not in released[0]
    assert summary["rejected"]["missing"] == 10 + len(NOTHING)
    assert len(rows(tmp_path / "forgotten")) == 5
