"""Columns of sinks by the configuration alone, against those that the job declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.jobs.config.load import Config, load
from crenel.jobs.pipeline.anonymizer import outputs
from crenel.jobs.pipeline.layout import SourceColumns, layout
from crenel.jobs.pipeline.sink_columns import written

CONF = Path(__file__).parents[3] / "conf"


@pytest.fixture(params=sorted(path.name for path in CONF.glob("*.yaml")))
def config(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Config:
    for name in ("ADULT_CSV", "TAXI_CSV", "CRENEL_DEMO_INPUT", "CRENEL_DEMO_OUTPUT", "CRENEL_SUBJECT_KEY"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("ADULT_HIERARCHIES", str(Path(__file__).parents[4] / "shared" / "data" / "adult"))
    try:
        return load(CONF / request.param)
    except ValueError:
        pytest.skip("its hierarchies are not here")


def test_columns_are_those_of_the_layout(config: Config) -> None:
    types = dict.fromkeys(config.policy.roles, "STRING")
    types |= {a.name: "INT" if a.step is None else "DOUBLE" for a in config.policy.numeric}
    types |= {a.name: "INT" for a in config.policy.noised}
    if config.policy.event_time is not None:
        types[config.policy.event_time] = "TIMESTAMP_LTZ(3) *ROWTIME*"
    steps = layout(config, SourceColumns(types, has_watermark=True))
    declared = {sink: [column.name for column in columns] for sink, (columns, _) in outputs(steps).items()}
    assert {sink: schema.names for sink, schema in written(config).items()} == declared
