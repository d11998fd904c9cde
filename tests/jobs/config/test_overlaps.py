"""Outputs that would mix with each other, with the source or with Flink's state are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.load import load
from crenel.jobs.config.overlaps import find_sinks_in_inputs, find_sinks_in_state
from crenel.jobs.config.paths import locate

JOB = """
policy: {quasi_identifiers: {age: {type: numeric}}}
privacy: {k: 3}
castle: {delay: {tuples: 5}}
source: {ddl: CREATE TEMPORARY TABLE source}
accept_duplicates: true
"""
SUHDSA_SECTION = "suhdsa: {tuples: 9, delay: {tuples: 9}}\nalgorithm: suhdsa"
Options = Mapping[str, str]


def files(path: str | Path) -> dict[str, str]:
    return {"connector": "filesystem", "path": str(path), "format": "csv"}


def kafka(topic: str, servers: str = "one:9092", name: str = "topic") -> dict[str, str]:
    return {"connector": "kafka", name: topic, "properties.bootstrap.servers": servers, "format": "json"}


def jdbc(table: str, url: str) -> dict[str, str]:
    return {"connector": "jdbc", "table-name": table, "url": url}


def iceberg(table: str, **more: str) -> dict[str, str]:
    given = {"connector": "iceberg", "catalog-name": "lake", "catalog-table": table, "warehouse": "s3://lake/house"}
    return given | {name.replace("_", "-"): value for name, value in more.items()}


def problems(folder: Path, sinks: Mapping[str, Options], text: str = JOB, **settings: str) -> list[str]:
    """Return what ``load`` has against sinks that are otherwise fine."""
    lines = [f"  {name}: {dict(options)}" for name, options in sinks.items()]
    path = folder / "job.yaml"
    path.write_text("\n".join([text, f"flink: {settings}", "sinks:", *lines]), encoding="utf-8")
    try:
        load(path)
    except ConfigError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    ("released", "audit", "message"),
    [
        (files("/out"), files("/out"), "sinks.audit.path: is the same path as sinks.released.path, so readers"),
        (files("/out"), files("/out/audit/"), "sinks.audit.path: lies inside sinks.released.path, so readers"),
        (files("/out/released"), files("file:///out"), "sinks.audit.path: contains sinks.released.path, so readers"),
        (files("out"), files(Path("out").absolute()), "sinks.audit.path: is the same path as"),
        (files("s3://bucket/a"), files("s3a://bucket//a/./b/"), "sinks.audit.path: lies inside sinks.released.path"),
        (files("/out"), {"connector": "paimon", "path": "/out/audit"}, "sinks.audit.path: lies inside"),
        (files("/house"), iceberg("audit", warehouse="/house"), "sinks.audit.warehouse: lies inside"),
        (kafka("t", "a:1, b:2"), kafka("t", "c:3,B:2"), "sinks.audit.topic: names a topic of sinks.released.topic"),
        (kafka("t;u"), kafka("v; u"), "sinks.audit.topic: names a topic of sinks.released.topic"),
        (
            jdbc("Rows", "jdbc:postgresql://db/x"),
            jdbc("rows", "jdbc:postgresql://db/x?ssl=true"),
            "sinks.audit.table-name: names the table of sinks.released.table-name",
        ),
        (iceberg("t"), iceberg("t", warehouse="s3a://lake/house/"), "sinks.audit.catalog-table: names the table of"),
        (
            iceberg("t", uri="thrift://b:9083,thrift://a:9083"),
            iceberg("t", uri="thrift://a:9083"),
            "sinks.audit.catalog-table: names the table of",
        ),
        (
            {"connector": "elasticsearch-7", "index": "i"},
            {"connector": "elasticsearch-7", "index": "i"},
            "sinks.audit.connector: has the same options as sinks.released.connector",
        ),
    ],
)
def test_two_sinks_at_one_place_are_refused(tmp_path: Path, released: Options, audit: Options, message: str) -> None:
    (problem,) = problems(tmp_path, {"released": released, "audit": audit})
    assert problem.startswith(message)
    assert problem.endswith("give each output a folder, topic or table of its own, and no folder inside another")


@pytest.mark.parametrize(
    ("released", "audit"),
    [
        (files("/out"), files("/out-audit")),
        (files("/out"), files("s3://out")),
        (files("s3://one/out"), files("s3://two/out")),
        (files("/out/a%20b"), files("/out/a b")),
        (kafka("t"), kafka("u")),
        (kafka("t", "a:1"), kafka("t", "b:1")),
        (kafka("t"), files("/t")),
        (jdbc("t", "jdbc:postgresql://db/x"), jdbc("t", "jdbc:postgresql://db/y")),
        (iceberg("t"), iceberg("u")),
        (iceberg("t"), iceberg("t", catalog_database="other")),
        (iceberg("t"), iceberg("t", warehouse="s3://lake/other")),
        ({"connector": "blackhole"}, {"connector": "blackhole"}),
        ({"connector": "print"}, {"connector": "print"}),
    ],
)
def test_sinks_apart_are_valid(tmp_path: Path, released: Options, audit: Options) -> None:
    assert problems(tmp_path, {"released": released, "audit": audit}) == []


def test_every_output_counts_also_those_of_an_algorithm(tmp_path: Path) -> None:
    names = ("released", "suppressed", "rejected", "audit", "forgotten", "summary", "repairs", "windows")
    text = JOB.replace("castle: {delay: {tuples: 5}}", SUHDSA_SECTION)
    found = problems(tmp_path, {name: files("/out") for name in names}, text)
    assert sorted(problem.split(":")[0] for problem in found) == sorted(f"sinks.{name}.path" for name in names[1:])


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "published")
    sinks = {"released": files(tmp_path / "published"), "audit": files(tmp_path / "link" / "audit")}
    (problem,) = problems(tmp_path, sinks)
    assert problem.startswith("sinks.audit.path: lies inside sinks.released.path")


@pytest.mark.parametrize(
    ("path", "folder", "message"),
    [
        ("/state/released", "file:///state", "sinks.released.path: lies inside flink.{setting}, so the output"),
        ("/state", "file:/state/", "sinks.released.path: is the same path as flink.{setting}, so the output"),
        ("s3://b/out", "s3://b/out/state", "sinks.released.path: contains flink.{setting}, so the output"),
    ],
)
@pytest.mark.parametrize(
    "setting",
    [
        "execution.checkpointing.dir",
        "state.checkpoints.dir",
        "execution.checkpointing.savepoint-dir",
        "state.savepoints.dir",
    ],
)
def test_a_sink_among_flinks_state_is_refused(
    tmp_path: Path, setting: str, path: str, folder: str, message: str
) -> None:
    (problem,) = problems(tmp_path, {"released": files(path)}, **{setting: folder})
    assert problem.startswith(message.format(setting=setting))
    (problem,) = find_sinks_in_state({}, {setting: folder}, files(path))
    assert problem.startswith("source.forget.ddl: 'path' ")


@pytest.mark.parametrize(
    ("sink", "source", "message"),
    [
        (files("/in/out"), files("/in"), "sinks.released.path: lies inside 'path' of source.ddl, so raw records"),
        (files("/in"), files("file:/in/rows.csv"), "sinks.released.path: contains 'path' of source.ddl"),
        (files("/in"), files("/in"), "sinks.released.path: is the same path as 'path' of source.ddl"),
        (kafka("b"), kafka("a;b"), "sinks.released.topic: names a topic of 'topic' of source.ddl"),
        (kafka("visits-out"), kafka("visits-.*", name="topic-pattern"), "sinks.released.topic: names a topic of"),
        (jdbc("t", "u"), jdbc("t", "u"), "sinks.released.table-name: names the table of 'table-name' of source.ddl"),
    ],
)
def test_a_sink_in_the_source_is_refused(sink: Options, source: Options, message: str) -> None:
    (problem,) = find_sinks_in_inputs({"released": sink}, source, None, is_filtered=False)
    assert problem.startswith(message)
    (problem,) = find_sinks_in_inputs({"released": sink}, {}, source, is_filtered=True)
    assert "source.forget.ddl, so requests to forget and the output would mix" in problem
    # Without a query of its own the table of requests would take records for requests.
    (problem,) = find_sinks_in_inputs({}, source, sink, is_filtered=False)
    assert problem.startswith("source.forget.ddl: '")
    assert list(find_sinks_in_inputs({}, source, sink, is_filtered=True)) == []


def test_a_sink_beside_the_source_is_valid() -> None:
    for sink, source in [
        (files("/in-out"), files("/in")),
        (files("/out"), {"connector": "datagen"}),
        (files("/out"), {}),
        (kafka("out"), kafka("visits-.*", name="topic-pattern")),
        (kafka("out"), kafka("[", name="topic-pattern")),
    ]:
        assert list(find_sinks_in_inputs({"released": sink}, source, None, is_filtered=False)) == []


PARTS = st.lists(st.sampled_from(["a", "b", "ab", "a b", "a%20b", "ü"]), min_size=1, max_size=5)


@st.composite
def spelled(draw: st.DrawFn, parts: list[str], roots: tuple[str, ...]) -> str:
    """Draw a spelling of a path: its root, with what changes nothing between its parts."""
    noise = st.sampled_from(["/", "//", "/./", "/gone/../", "/./x/../"])
    path = "".join(f"{draw(noise)}{part}" for part in parts)
    return draw(st.sampled_from(roots)) + path + draw(st.sampled_from(["", "/", "//", "/."]))


@given(st.data(), PARTS, PARTS, st.booleans())
def test_a_place_does_not_depend_on_its_spelling(
    data: st.DataObject, parts: list[str], others: list[str], here: bool
) -> None:
    roots = ("/.", "file:/.", "file:///", "FILE://localhost") if here else ("s3://Bucket", "s3a://bucket")
    parts, others = ["not", "there", *parts], ["not", "there", *others]
    one, same, other = (data.draw(spelled(p, roots)) for p in (parts, parts, others))
    assert locate(one) == locate(same)
    assert locate(one)[1:] == tuple(parts)
    nested = parts[: len(others)] == others or others[: len(parts)] == parts
    assert bool([*find_sinks_in_inputs({"audit": files(other)}, files(one), None, is_filtered=False)]) == nested
