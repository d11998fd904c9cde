"""``crenel attack`` on a run, on replays, and on another file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.launch import Host
from tests.support.visits import ROWS, visits, write

LITTLE = ("--seeds", "1", "--targets", "100")


@pytest.fixture(scope="module")
def job(mini: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(tmp_path_factory.mktemp("attack") / "job", visits())
    ended = mini.crenel("run", path)
    assert ended.returncode == 0, ended.stderr
    return path


@pytest.mark.flink
def test_a_run_and_replays_of_its_input_are_attacked(job: Path, mini: Host) -> None:
    ended = mini.crenel("attack", job, *LITTLE, "--within-time", "5 s", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["whole"]
    assert found["tuples"] < ROWS
    assert 0 < found["outputs"]["released"] <= found["tuples"]
    left, replayed = ({(a["name"], a["knows"]): a for a in found[part]["attacks"]} for part in ("outputs", "replays"))
    assert {a["judged"] for a in left.values()} == {"outputs"}
    assert {a["judged"] for a in replayed.values()} == {"replay"}
    for name in ("re-identification at 1", "linking", "disclosure of illness", "homogeneity in illness"):
        for attacks in (left, replayed):
            of = attacks[name, "quasi-identifiers"]
            assert 0 <= of["low"] <= of["success"] <= of["high"] <= 1
    assert replayed["linking", "quasi-identifiers, times to within 5 s"]["success"] > 0
    assert left["homogeneity in illness", "quasi-identifiers"]["success"] == 0
    assert ("linking", "quasi-identifiers, placement") in left
    assert ("linking", "quasi-identifiers, placement, times to within 5 s") in replayed
    # The output has no name and no value of a person.
    text = json.dumps(found)
    for row in visits()[:200]:
        assert str(row["name"]) not in text
        assert str(row["illness"]) not in text or len(str(row["illness"])) < 4


@pytest.mark.flink
def test_a_file_takes_the_place_of_the_source_and_must_be_the_input_of_the_run(job: Path, mini: Host) -> None:
    folder = job.parent / "a b%20ß"
    write(folder, visits()[:900])
    part = folder / "in.csv"
    ended = mini.crenel("attack", job, *LITTLE, "--sample", part)
    assert ended.returncode == 2
    assert "sinks.released: " in ended.stderr
    assert ended.stderr.count("\n") == 1
    ended = mini.crenel("attack", job, *LITTLE, "--sample", part, "--replay", "--within-rows", "10")
    assert ended.returncode == 0, ended.stderr
    assert "order to within 10" in ended.stdout
    assert "Outputs of the run" not in ended.stdout


@pytest.mark.flink
def test_of_a_part_of_the_input_the_outputs_are_not_judged(job: Path, mini: Host) -> None:
    ended = mini.crenel("attack", job, *LITTLE, "--rows", "500")
    assert ended.returncode == 0, ended.stderr
    assert "The input has more than 500 rows" in ended.stdout
    ended = mini.crenel("attack", job, *LITTLE, "--rows", "3")
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "persons" in ended.stderr
