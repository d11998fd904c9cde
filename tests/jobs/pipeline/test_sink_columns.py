"""Columns of sinks by the configuration alone, against those that the job declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.jobs.config.load import Config, load
from crenel.jobs.pipeline.anonymizer import outputs
from crenel.jobs.pipeline.layout import SourceColumns, layout
from crenel.operators.plan import output_schemas
from tests.support.layouts import layout_of

CONF = Path(__file__).parents[3] / "conf"
LAKE = ("CRENEL_WAREHOUSE", "CRENEL_JARS")


@pytest.fixture(params=sorted(path.name for path in CONF.glob("*.yaml")))
def config(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    """Return a configuration of ``conf/``, which must be valid; hierarchies of Adult have one leaf."""
    for name in ("ADULT_CSV", "TAXI_CSV", "CRENEL_DEMO_INPUT", "CRENEL_DEMO_OUTPUT", "CRENEL_SUBJECT_KEY", *LAKE):
        monkeypatch.setenv(name, "/nowhere/of/16/bytes")
    for name in re.findall(r"\$\{ADULT_HIERARCHIES\}/(\S+\.csv)", (CONF / request.param).read_text(encoding="utf-8")):
        (tmp_path / name).write_text("leaf;*\n", encoding="utf-8")
    monkeypatch.setenv("ADULT_HIERARCHIES", str(tmp_path))
    # Regions are of hierarchies, and columns depend on none.
    return load(CONF / request.param, ["shards={}"], with_regions=False)


def test_a_set_is_an_array_where_the_sink_has_arrays() -> None:
    tree = from_paths([("north", "*"), ("south", "*")])
    policy = Policy({"area": Categorical(tree, publish="set"), "age": Numeric(publish="mean")})
    sinks = {"released": {"connector": "kafka", "format": "json"}, "audit": {"connector": "filesystem"}}
    types = {"area": "STRING", "age": "INT"}

    def declared(released: dict[str, str], sink: str = "released") -> list[str]:
        found = layout_of(policy, types, sinks={**sinks, "released": released}).sinks
        return [f"{column.declaration}: {column.expression}" for column in found[sink] if column.name in types]

    array, mean = "`area` ARRAY<STRING>: SPLIT(q0, ';')", "`age` DOUBLE: q1"
    assert declared(sinks["released"]) == [array, mean]
    assert declared({}, "audit") == [array, mean]
    for options in ({"format": "csv"}, {"value.format": "csv"}, {"connector": "jdbc"}):
        assert declared({"connector": "kafka", **options}) == ["`area` STRING: q0", mean]


def test_columns_are_those_of_the_layout(config: Config) -> None:
    types = dict.fromkeys(config.policy.roles, "STRING")
    types |= {a.name: "INT" if a.step is None else "DOUBLE" for a in config.policy.numeric}
    types |= {a.name: "INT" for a in config.policy.noised.values()}
    if config.policy.event_time is not None:
        types[config.policy.event_time] = "TIMESTAMP_LTZ(3) *ROWTIME*"
    steps = layout(config, SourceColumns(types, has_watermark=True))
    # Days are for partitions of a table, and no reader needs them.
    days = {sink: table.day_column for sink, table in config.tables.items()}
    declared = {
        sink: [column.name for column in columns if column.name != days.get(sink)]
        for sink, (columns, _) in outputs(steps).items()
    }
    schemas = output_schemas(config, chained=config.audit_chain is not None)
    assert {sink: schema.names for sink, schema in schemas.items()} == declared
