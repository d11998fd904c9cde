"""A format of records that is one file of the tests, from its section in a configuration to encoded tuples."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import reference

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.secret import SubjectKey
from crenel.jobs.config.load import Config, load
from crenel.jobs.config.start_warnings import row_warnings
from crenel.jobs.formats.record_format import add_format, known_formats
from crenel.jobs.pipeline.layout import SourceColumns, layout
from crenel.operators.encode.columns import members_schema
from crenel.operators.encode.containment import ContainedEncoder
from crenel.state.block import Block
from tests.support.layouts import encode_plan

MODULE = "tests.extension_points.pairs"
CONFIGURATION = f"""
extensions: [{MODULE}]
policy:
  subject: who
  quasi_identifiers: {{age: {{type: numeric, domain: [0, 100]}}}}
  passthrough: [seen]
privacy: {{k: 3}}
castle: {{delay: {{tuples: 5}}}}
source:
  ddl: CREATE TEMPORARY TABLE source
  from_pairs: {{column: line, fields: {{who: STRING, age: INT, seen: TIMESTAMP_LTZ(3)}}, separator: "&"}}
sinks: {{released: {{connector: blackhole}}}}
"""


@pytest.fixture(autouse=True)
def _unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crenel.jobs.formats.record_format._KNOWN", {})
    monkeypatch.delitem(sys.modules, MODULE, raising=False)


def config(folder: Path, *overrides: str) -> Config:
    path = folder / "job.yaml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    return load(path, overrides)


def test_records_are_read_from_their_section_to_tuples(tmp_path: Path) -> None:
    made = config(tmp_path)
    records: Any = made.source.records
    assert (records.name, records.column, records.separator) == ("pairs", "line", "&")
    assert records.query(["line", "place"], "bytes") == (
        "SELECT CAST(NULL AS STRING) AS `who`, CAST(NULL AS INT) AS `age`, CAST(NULL AS TIMESTAMP_LTZ(3)) AS `seen`, "
        "CAST(`line` AS BYTES) AS `bytes`, `place` FROM source"
    )
    found = layout(made, SourceColumns(records.types))
    read = pickle.loads(pickle.dumps(records.arguments(found.plan.arguments)))
    assert None not in read.arguments
    plan = encode_plan(found, Shards(1), (0,), SubjectKey.of(b"a key"))
    lines = [b"who=a&age=30&seen=2024-02-29T01:00:00+01:00", b"age=41&who=b&more=x", b"who=c&age=old", b"\xff", None]
    _, blobs = ContainedEncoder(plan, read).encode(pd.Series(lines, dtype=object))
    (block,) = [Block.from_bytes(blob, members_schema(plan.passthrough)) for blob in blobs if blob is not None]
    assert block.numeric.tolist() == [[30.0], [41.0]]
    assert block.members.to_pylist() == [{"seen": "2024-02-29 00:00:00.000"}, {"seen": None}]
    assert len(block.rejected.reason) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("source.from_pairs.fields={}", "source.from_pairs.fields: holds too little; at least one 'column: TYPE', a t"),
        ("source.from_pairs.fields.age=DATE", "source.from_pairs.fields.age: is not a type that a value of a pair is"),
        ("source.from_pairs.quote=x", "source.from_pairs.quote: is unknown; known here: column, fields, separator"),
        (
            "source.from_pairs=x",
            "source.from_pairs: must be a mapping such as {column: record, fields: {age: INT}}: c",
        ),
        ("source.query=SELECT 1", "source: has 'query' and 'from_pairs', of which one stands in the other's place"),
        ("flink={table.local-time-zone: Asia/Tokyo}", "source.from_pairs.fields.seen: TIMESTAMP_LTZ(3) is read in UTC"),
        ("extensions=[]", "source.from_pairs: is unknown (did you mean 'from_avro'?); known here: ddl, table, "),
    ],
)
def test_what_is_wrong_is_named_by_its_field(tmp_path: Path, change: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(tmp_path, change)
    assert [each.startswith(problem) for each in raised.value.problems] == [True], raised.value.problems


def test_the_reference_has_its_parameters(tmp_path: Path) -> None:
    config(tmp_path)
    shown = {of.name: of.meaning for of in reference.parameters() if of.name.startswith("source.from_pairs")}
    assert shown == {
        "source.from_pairs.column": "text column of the table that holds the record",
        "source.from_pairs.fields": "type by column",
        "source.from_pairs.separator": "separator of pairs",
    }


def test_warnings_recommend_it_in_place_of_a_format_of_flink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config(tmp_path)
    monkeypatch.setattr(known_formats()["pairs"], "ended_by", {"flat": "has no pair"})
    (warning,) = row_warnings("source.ddl", {"connector": "filesystem", "format": "flat"})
    assert "'format' = 'flat' ends the job at the first record that has no pair" in warning
    assert "; read each record as 'format' = 'raw', and its fields with source.from_pairs, so that such a re" in warning
    assert warning.endswith("is rejected with a reason")


def test_another_format_of_the_same_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config(tmp_path)
    own = known_formats()["pairs"]
    assert add_format(own) is own
    monkeypatch.setattr(own, "name", "json")
    with pytest.raises(ValueError, match=r"^source\.from_json: there are two formats of this name$"):
        add_format(own)
