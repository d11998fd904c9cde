"""Plans and explanations of settings within a process."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import crenel
from crenel.anonymity import builtin
from crenel.anonymity.model.region_tree import RegionTree
from tests.crenel.stream import records, settings

DAY = crenel.Delay(event_time="1 day")


@pytest.fixture(autouse=True)
def _only_what_comes_with_crenel(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests make algorithms of their own known, among them broken ones, and a plan tries all.
    monkeypatch.setattr("crenel.anonymity.algorithm._KNOWN", {known.name: known for known in builtin.ALGORITHMS})


def test_a_plan_recommends_settings_that_anonymize_as_it_says() -> None:
    of, table = settings("timed", shards=2), records(600)
    found = crenel.plan(table, of, max_delay=crenel.Delay(event_time="8 h"), replays=12)
    assert found.meets
    assert found.settings is not None
    assert found.chosen is not None
    summary = crenel.anonymize(table, found.settings).summary
    assert summary.mean_loss == pytest.approx(found.chosen.figures.loss)
    assert found.settings.privacy.k == 4
    document, rows = found.to_dict(), found.to_arrow().to_pylist()
    assert document["sample"]["tuples"] == summary.read - sum(summary.rejected.values())
    assert (document["delay_in"], document["meets"]) == ("milliseconds", True)
    assert [row["mean_loss"] for row in rows] == [setting["mean_loss"] for setting in document["settings"]]
    assert sum(row["is_chosen"] for row in rows) == sum(row["is_configured"] for row in rows) == 1
    assert len(found.figure().axes) == 3
    assert repr(found) == str(found)
    assert str(found).startswith(f"{len(rows)} settings on ")


def test_values_of_a_plan_are_those_that_are_varied() -> None:
    vary: dict[str, Any] = {
        "algorithm": ["castle"],
        "k": [4, 6],
        "shards": [1, crenel.Shards(2, "area")],
        "castle.max_clusters": [10, 20],
    }
    of = settings("castle", shards=4)  # of which none has the given values
    found = crenel.plan(records(), of, vary=vary, max_delay=crenel.Delay(event_time=timedelta(hours=9)))
    varied = [point for point in found.figures if point.further]
    assert {(point.algorithm, point.k, point.shards, point.by) for point in varied} >= {
        ("castle", k, *shards) for k in (4, 6) for shards in ((1, "subject"), (2, "area"))
    }
    assert {point.further for point in varied} == {(("castle.max_clusters", most),) for most in ("10", "20")}
    assert found.settings is not None
    assert isinstance(found.settings.algorithm, crenel.Castle)
    assert found.settings.algorithm.max_clusters in (10, 20)
    assert found.settings.policy.sensitive == ("diagnosis",)


def test_regions_are_learned_where_a_file_is_given_for_them(tmp_path: Path) -> None:
    table, of = records(800), settings(shards=2)
    vary = {"algorithm": ["nearest"], "shards": [crenel.Shards(2, "regions")], "delay": [crenel.Delay(tuples=60)]}
    without = crenel.plan(table, of, vary=vary)
    assert any("no file is given" in problem for problem in without.impossible.values())
    found = crenel.plan(table, of, vary=vary, regions=tmp_path / "regions.yaml")
    assert found.settings is not None
    shards = found.settings.shards
    assert (shards.count, shards.by) == (2, "regions")
    assert isinstance(shards.regions, RegionTree)
    assert shards.regions.source == str(tmp_path / "regions.yaml")
    assert found.regions == tmp_path / "regions.yaml"
    assert crenel.verify(crenel.anonymize(table, found.settings), found.settings).outcome == "holds"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"max_loss": 20}, "max_loss: must be a share"),
        ({"max_delay": crenel.Delay(tuples=10)}, "max_delay: the data has event time"),
        ({"vary": {"color": ["red"]}}, "vary: 'color' is none of algorithm, k, l, delay, shards"),
        ({"vary": {"k": [0]}}, "vary: k and l must be whole numbers"),
        ({"vary": {"k": []}}, r"vary\['k'\]: must be a list of values"),
        ({"vary": {"delay": [10]}}, r"vary\['delay'\]: must be a list of Delay"),
        ({"vary": {"algorithm": ["best"]}}, r"vary\['algorithm'\]: 'best' is none of"),
        ({"regions": "/nowhere/regions.yaml"}, "regions: the folder of the file does not exist"),
    ],
)
def test_an_argument_that_cannot_be_is_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        crenel.plan(records(), settings(), **arguments)


def test_a_plan_in_several_processes_is_the_same() -> None:
    table, of = records(), settings()
    one, two = (
        crenel.plan(table, of, max_delay=DAY, vary={"k": [4, 8]}, replays=4, processes=processes)
        for processes in (1, 2)
    )
    assert one.to_arrow() == two.to_arrow()


def test_suppression_is_explained_with_remedies() -> None:
    of, table = replace(settings(), algorithm=crenel.Nearest(crenel.Delay(tuples=2))), records()
    result = crenel.anonymize(table, of)
    found = crenel.why(table, of, result=result)
    assert found.run is not None
    assert dict(found.remedies.suppressed) == found.run.suppressed | dict.fromkeys(
        found.remedies.suppressed.keys() - found.run.suppressed.keys(), 0
    )
    assert found.run.released == result.released.num_rows
    (reason, count), *_ = result.summary.suppressed.items()
    assert count > 100
    nearest = found.remedies.nearest(reason)
    assert nearest is not None
    assert nearest.kind == "delay"
    document, rows = found.to_dict(), found.to_arrow()
    assert document["nearest"][reason] == nearest.change
    assert repr(found) == str(found)
    assert str(found).startswith("380 records, ")
    assert rows["change"].to_pylist() == ["as configured", *(tried["change"] for tried in document["tried"])]
    assert rows[f"suppressed_{reason}"][0].as_py() == count
    assert {row["column"] for row in document["rejected"]} == {"age", "area"}
    # The first records alone, of which none is known to a reader by a count.
    assert crenel.why(table, of, rows=50).to_dict()["sample"]["tuples"] == 50


def test_a_weaker_privacy_model_is_a_remedy() -> None:
    of = replace(settings(), privacy=crenel.Privacy(k=4, alpha=0.3), algorithm=crenel.Nearest(crenel.Delay(tuples=8)))
    found = crenel.why(records(), of)
    models = [remedy for remedy in found.remedies.tried if remedy.kind == "model"]
    assert [(remedy.change, remedy.is_weaker) for remedy in models] == [("no privacy.alpha", True)]


def test_why_needs_records() -> None:
    with pytest.raises(ValueError, match="data: has 0 valid records"):
        crenel.why(records().slice(0, 0), settings())
