"""``crenel plan`` on a sample that Flink reads."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from crenel.jobs.cli.synthetic import write
from crenel.jobs.config.load import load
from tests.support.launch import Host
from tests.support.visitors import assert_tells_nobody

ROOT = Path(__file__).resolve().parents[4]

DEMO = ROOT / "conf" / "demo.yaml"


@pytest.fixture(autouse=True)
def demo_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRENEL_DEMO_INPUT", "/nowhere/in.csv")
    monkeypatch.setenv("CRENEL_DEMO_OUTPUT", "/nowhere")


@pytest.mark.flink
def test_a_plan_is_made_from_a_file_and_can_be_pasted(mini: Host, tmp_path: Path) -> None:
    stream, picture = tmp_path / "stream.csv", tmp_path / "plan.svg"
    write(stream, 1500, 1)
    result = mini.crenel(
        "plan", DEMO, "--sample", stream, "--rows", "1000", "--settings", "4", "--json", "--plot", picture,
        "--max-delay", "300 min", "--vary", "algorithm=nearest,castle", "--vary", "shards=1",
    )  # fmt: skip
    assert result.returncode in (0, 1), result.stderr
    document = json.loads(result.stdout)
    assert (document["sample"]["tuples"], document["sample"]["whole"], document["delay_in"]) == (
        1000,
        False,
        "milliseconds",
    )
    assert document["meets"] == (result.returncode == 0)
    settings = document["settings"]
    assert {setting["algorithm"] for setting in settings} >= {"nearest", "castle"}
    for setting in settings:
        assert setting["fewest_subjects"] is None or setting["fewest_subjects"] >= setting["k"]
        assert setting["delay_p99"] is None or math.isfinite(setting["delay_p99"])
    chosen = document["chosen"]
    if document["meets"]:
        assert chosen["delay_p99"] <= 300 * 60_000
    sections = yaml.safe_load(document["yaml"])
    other = [] if chosen["algorithm"] == "nearest" else ["nearest=~"]
    config = load(DEMO, [*other, *(f"{name}={json.dumps(value)}" for name, value in sections.items())])
    assert (config.algorithm.name, config.privacy.k) == (chosen["algorithm"], chosen["k"])
    assert "on the front" in picture.read_text(encoding="utf-8")
    assert_tells_nobody(stream, result.stdout)


@pytest.mark.flink
def test_a_sample_of_one_row_is_refused_by_its_option(mini: Host, tmp_path: Path) -> None:
    stream = tmp_path / "stream.csv"
    write(stream, 1, 1)
    result = mini.crenel("plan", DEMO, "--sample", stream)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"crenel: --sample: {stream} gave ")
    assert result.stderr.count("\n") == 1
