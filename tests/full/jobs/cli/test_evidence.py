"""Commands that judge a run or a sample: what Flink reads reaches the library, and nothing of a person is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from crenel.jobs.config.load import load
from tests.support.launch import Host
from tests.support.visits import ROWS, TOWNS, visits, write
from tests.support.web_page import Page

pytestmark = pytest.mark.flink

LITTLE = ("--seeds", "1", "--targets", "100")


@pytest.fixture(scope="module")
def job(mini: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the configuration of a run that has ended, with its page ``run.html`` and parts of its input beside it."""
    path = write(tmp_path_factory.mktemp("evidence") / "job", visits())
    ended = mini.crenel("run", path, "--report", path.parent / "run.html")
    assert ended.returncode == 0, ended.stderr
    assert "\nreport " in ended.stdout
    for name, count in (("a b%20ß", 900), ("one", 1)):
        write(path.parent / name, visits()[:count])
    return path


def require_nobody(text: str) -> None:
    """Require that a text names nobody and no moment of a record."""
    persons = {row["person"] for row in visits() if row["person"]} - {"p50", "p99"}  # which are also percentiles
    assert not persons & set(text.split())
    assert not [row for row in visits() if f"{row['ms']}" in text]
    assert "Secret" not in text


def printed(mini: Host, *arguments: str | Path) -> dict[str, Any]:
    """Return the JSON that a command prints."""
    ended = mini.crenel(*arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    require_nobody(ended.stdout)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_run_and_replays_of_its_input_are_attacked(job: Path, mini: Host) -> None:
    found = printed(mini, "attack", job, *LITTLE, "--within-time", "5 s")
    assert found["whole"]
    assert 0 < found["outputs"]["released"] <= found["tuples"] < ROWS
    left, replayed = ({(a["name"], a["knows"]): a for a in found[part]["attacks"]} for part in ("outputs", "replays"))
    assert {a["judged"] for a in left.values()} == {"outputs"}
    assert {a["judged"] for a in replayed.values()} == {"replay"}
    for name in ("re-identification at 1", "linking", "disclosure of illness", "homogeneity in illness"):
        assert {(name, "quasi-identifiers")} <= left.keys() & replayed.keys()
    assert ("linking", "quasi-identifiers, placement") in left
    assert ("linking", "quasi-identifiers, placement, times to within 5 s") in replayed


def test_a_plan_is_made_from_a_file_and_can_be_pasted(job: Path, mini: Host) -> None:
    stream, picture = job.parent / "in.csv", job.parent / "plan.svg"
    options = ("--sample", stream, "--rows", "1000", "--settings", "4", "--max-delay", "300 min", "--plot", picture)
    found = printed(mini, "plan", job, *options, "--vary", "algorithm=nearest,castle", "--vary", "shards=1")
    assert (found["sample"]["whole"], found["delay_in"], found["meets"]) == (False, "milliseconds", True)
    assert {setting["algorithm"] for setting in found["settings"]} >= {"nearest", "castle"}
    chosen = found["chosen"]
    other = [] if chosen["algorithm"] == "castle" else ["castle=~"]
    pasted = [f"{name}={json.dumps(value)}" for name, value in yaml.safe_load(found["yaml"]).items()]
    config = load(job, [*other, *pasted])
    assert (config.algorithm.name, config.privacy.k) == (chosen["algorithm"], chosen["k"])
    assert "on the front" in picture.read_text(encoding="utf-8")


def test_what_was_suppressed_is_explained_with_remedies(job: Path, mini: Host) -> None:
    hard = ("--set", "privacy.k=40", "--set", "castle.delay.tuples=45")
    found = printed(mini, "why", job, "--sample", job.parent / "in.csv", *hard)
    lost = {reason for reason, count in found["suppressed_by_reason"].items() if count}
    assert found["nearest"].keys() == lost != set()
    assert {remedy["kind"] for remedy in found["tried"]} >= {"delay", "shards", "k"}
    # Its numbers have no domain, so nothing can be published fully generalized.
    assert "wage.domain" in found["impossible"]["castle.suppression: generalize"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("attack", *LITTLE, "--sample", "a b%20ß/in.csv"), 2, "sinks.released: "),
        (("attack", *LITTLE, "--sample", "a b%20ß/in.csv", "--replay", "--within-rows", "10"), 0, "order to within 10"),
        (("attack", *LITTLE, "--rows", "500"), 0, "The input has more than 500 rows"),
        (("attack", *LITTLE, "--rows", "3"), 2, "persons"),
        (("plan", "--sample", "one/in.csv"), 2, "crenel: --sample: "),
        (("why", "--sample", "a b%20ß/in.csv", "--set", "privacy={k: 1}"), 0, "Nothing was suppressed"),
    ],
)
def test_of_a_part_of_the_input(job: Path, mini: Host, arguments: tuple[str, ...], code: int, said: str) -> None:
    command, *rest = (str(job.parent / each) if each.endswith(".csv") else each for each in arguments)
    ended = mini.crenel(command, job, *rest)
    assert (ended.returncode, said in (ended.stderr if code else ended.stdout)) == (code, True), ended
    assert not code or ended.stderr.count("\n") == 1


def numbers(found: Page, table: str, column: int) -> list[int]:
    return [int(row[column].replace(",", "")) for row in found.tables[table][1]]


def test_the_page_of_a_run_and_a_later_one_show_input_and_output_and_nothing_raw(job: Path, mini: Host) -> None:
    found = Page((job.parent / "run.html").read_text(encoding="utf-8"))
    assert found.problems == []
    outcomes = [row[0] for row in found.tables["Rows by outcome"][1]]
    went = dict(zip(outcomes, numbers(found, "Rows by outcome", 1), strict=True))
    assert went["total"] == ROWS
    admitted = ROWS - sum(rows for what, rows in went.items() if what.startswith("rejected"))
    for name in ("age", "town", "wage"):
        assert sum(numbers(found, name, 1)) == admitted
        assert abs(sum(numbers(found, name, 3)) - went["published, generalized"]) < len(found.tables[name][1])
        assert min(numbers(found, name, 1)) >= 5
    assert sum(numbers(found, "Rows by their delay", 1)) == admitted
    assert not [town for town in TOWNS if town in found.text]
    require_nobody(found.text)
    for option, columns in (["--input"], 5), ([], 3):
        ended = mini.crenel("report", job, "--output", job.parent / "later.html", *option)
        assert ended.returncode == 0, ended.stderr
        later = Page((job.parent / "later.html").read_text(encoding="utf-8"))
        assert later.problems == []
        assert {len(later.tables[name][0]) for name in ("age", "town", "wage")} == {columns}
    assert later.tables["Rows by outcome"] == found.tables["Rows by outcome"]
