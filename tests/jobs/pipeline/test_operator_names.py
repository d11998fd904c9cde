"""Names of operators, by which a savepoint finds their state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from crenel.jobs.pipeline.job import JOB, name_operators


def transformation(uid: str, *inputs: Any, name: str = "Calc[17]") -> Any:
    """Return a transformation of Flink, with its uid, and a count of requests for its inputs in ``requests``."""
    made = SimpleNamespace(uid=uid, name=name, requests=0)

    def read() -> Any:
        made.requests += 1
        return SimpleNamespace(size=lambda: len(inputs), get=lambda number: inputs[number])

    vars(made).update(
        getId=lambda: id(made),
        getInputs=read,
        getUid=lambda: made.uid,
        setUid=lambda uid: setattr(made, "uid", uid),
        getName=lambda: made.name,
        setName=lambda name: setattr(made, "name", name),
    )
    return made


def test_what_two_sinks_read_is_named_for_the_first_and_asked_for_once() -> None:
    source = transformation("crenel-source")
    shared = transformation("1_calc", source)
    own = [transformation("2_calc", shared), transformation("3_calc", shared)]
    ends = [transformation("4_sink", each, shared) for each in own]
    known: set[str] = set()
    seen: set[int] = set()
    for label, end in zip(("released", "audit"), ends, strict=True):
        name_operators(end, label, JOB, known, seen)
    assert (source.uid, shared.uid) == ("crenel-source", "crenel-released-calc-2")
    assert [each.uid for each in own] == ["crenel-released-calc", "crenel-audit-calc"]
    assert [end.uid for end in ends] == ["crenel-released-sink", "crenel-audit-sink"]
    assert (source.requests, shared.requests) == (1, 1)


def test_names_are_short_and_have_no_number_that_a_further_sink_changes() -> None:
    source = transformation("1_kafka", name="KafkaSource-default_catalog.default_database.source")
    ticks = transformation("2_source", name="crenel_ticks[2]")
    encode = transformation("3_python-calc", source, ticks, name="PythonCalc[3]")
    operator = transformation("crenel-nearest", encode, name="nearest")
    side = transformation("4_external-datastream", operator, name="DataStreamToTable")
    rows = transformation("5_correlate", side, name="Correlate[5]")
    sink = transformation("6_kafka-sink", rows, name="crenel_sink_released[6]")
    known: set[str] = set()
    seen: set[int] = set()
    for label, end in (("source", operator), ("sink_released", sink)):
        name_operators(end, label, JOB, known, seen)
    steps = (source, ticks, encode, operator, side, rows, sink)
    assert [step.name for step in steps] == ["source", "ticks", "encode", "nearest", "rows", "unnest", "released"]
