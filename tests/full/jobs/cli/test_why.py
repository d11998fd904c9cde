"""``crenel why`` on a sample that Flink reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crenel.jobs.cli.synthetic import write
from tests.support.launch import Host
from tests.support.visitors import assert_tells_nobody

ROOT = Path(__file__).resolve().parents[4]

DEMO = ROOT / "conf" / "demo.yaml"

HARD = ("--set", "privacy.k=25", "--set", "nearest.delay={tuples: 30}", "--set", "shards.count=2")


@pytest.fixture(autouse=True)
def demo_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRENEL_DEMO_INPUT", "/nowhere/in.csv")
    monkeypatch.setenv("CRENEL_DEMO_OUTPUT", str(tmp_path / "out"))


@pytest.mark.flink
def test_what_was_suppressed_is_told_with_what_would_have_saved_it(mini: Host, tmp_path: Path) -> None:
    stream = tmp_path / "stream.csv"
    write(stream, 1500, 1)
    result = mini.crenel("why", DEMO, "--sample", stream, "--json", *HARD)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert sum(of["share"] for of in document["losses"].values()) == pytest.approx(1)
    losses = [of["loss"] for of in document["losses"].values()]
    assert sum(losses) / len(losses) == pytest.approx(document["mean_loss"])
    for name, of in document["losses"].items():
        assert of["without"]["losses"].keys() == document["losses"].keys() - {name}
    lost = {reason for reason, count in document["suppressed_by_reason"].items() if count}
    assert lost
    assert document["nearest"].keys() == lost
    kinds = {remedy["kind"] for remedy in document["tried"]}
    assert kinds == {"delay", "shards", "hierarchy", "quasi_identifiers", "l", "k"}
    assert [r["change"] for r in document["tried"] if r["promises_less"]] == ["privacy.l: 1", "privacy.k: 12"]
    # Its numbers have no domain, so nothing can be published fully generalized.
    assert "salary.domain" in document["impossible"]["nearest.suppression: generalize"]
    assert all(row["rows"] % 25 == 0 for row in document["rejected"])
    assert_tells_nobody(stream, result.stdout)


@pytest.mark.flink
def test_with_nothing_suppressed_it_says_so_and_tells_losses(mini: Host, tmp_path: Path) -> None:
    stream = tmp_path / "stream.csv"
    write(stream, 1500, 1)
    # Without reuse the last tuples would be too few.
    changes = ("--set", "privacy.k=2", "--set", "shards.count=1", "--set", "nearest.reuse_limit=1000")
    result = mini.crenel("why", DEMO, "--sample", stream, *changes)
    assert result.returncode == 0, result.stderr
    assert "Nothing was suppressed" in result.stdout
    assert "Loss by attribute" in result.stdout
    assert "Traceback" not in result.stderr
