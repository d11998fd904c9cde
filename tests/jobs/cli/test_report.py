"""``crenel report`` without Flink: files that were written by hand, and what it says where it cannot write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crenel.jobs.cli.app import app
from crenel.jobs.config.load import load
from crenel.operators.digests import settings_digest
from tests.support.outputs import ALIKE, AUDITED, configure, member, release, write_csv
from tests.support.web_page import Page

SUMMARY = [
    *((0, name, amount) for name, amount in (("tuples_in", 5), ("released", 4), ("suppressed.outlier", 1))),
    *((0, name, amount) for name, amount in (("rejected.missing", 2), ("releases.cluster", 2), ("loss_sum", 1.0))),
    *((0, name, amount) for name, amount in (("delay.3", 4), ("delay.7", 1), ("longest_delay", 7))),
]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return a configuration, and outputs in which everything holds."""
    path = configure(tmp_path, ["released", "audit", "suppressed", "summary"])
    write_csv(tmp_path / "released", ALIKE)
    write_csv(tmp_path / "audit", AUDITED)
    write_csv(tmp_path / "summary", [dict(zip(("shard", "name", "amount"), row, strict=True)) for row in SUMMARY])
    return path


def report(job: Path, *arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["report", str(job), *map(str, arguments)])


def page(job: Path, *arguments: str) -> Page:
    result = report(job, "--output", job.parent / "out.html", *arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"The report is in {job.parent / 'out.html'}.\n"
    return Page((job.parent / "out.html").read_text(encoding="utf-8"))


def test_outputs_and_their_summary_become_a_page(job: Path) -> None:
    found = page(job)
    assert found.problems == []
    assert found.tables["Rows by outcome"][1] == [
        ["published, generalized", "4", "57.1%"],
        ["suppressed: outlier", "1", "14.3%"],
        ["rejected: missing", "2", "28.6%"],
        ["total", "7", "100.0%"],
    ]
    assert found.tables["Delay"][1] == [["median", "3"], ["p99", "7"], ["longest", "7"]]
    assert "hierarchy of town" in [row[0] for row in found.tables["Versions and hashes"][1]]
    assert "subject_key" in found.text.split("Warnings")[-1]


def test_only_its_owner_can_read_the_page_and_it_loads_nothing(job: Path) -> None:
    place = job.parent / "out.html"
    for _ in range(2):
        page(job)
        assert place.stat().st_mode & 0o777 == 0o600
        policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        text = place.read_text(encoding="utf-8")
        # Before anything that it has to hold for.
        assert -1 < text.find(f'<meta http-equiv="Content-Security-Policy" content="{policy}">') < text.find("<style")
        place.chmod(0o644)


def test_without_a_summary_the_sinks_are_counted(tmp_path: Path) -> None:
    path = configure(tmp_path)
    write_csv(tmp_path / "released", ALIKE)
    write_csv(tmp_path / "audit", AUDITED)
    suppressed = {"reason": "too_few_subjects", "shard": 0, "position": 4, "event_time": "2024-03-01 08:00:00.5Z"}
    write_csv(tmp_path / "suppressed", [suppressed] * 2)
    found = page(path)
    assert found.tables["Rows by outcome"][1][:2] == [
        ["published, generalized", "4", "66.7%"],
        ["suppressed: too few subjects", "2", "33.3%"],
    ]
    assert "In short\n4 rows were published, with less detail in age and town; 2 were suppressed" in found.text
    assert "The number of rejected rows is unknown, because there is no sink 'rejected'." in found.text


def test_suppressed_rows_that_were_published_are_told_apart_without_a_summary(tmp_path: Path) -> None:
    path = configure(tmp_path)
    write_csv(tmp_path / "released", [*ALIKE, member(0, 99, "all", "gout", 9)])
    alone = {"kind": "generalized", "subjects": 1, "tuples": 1, "diversity_illness": 1, "loss": 1.0}
    write_csv(tmp_path / "audit", [*AUDITED, release(2, 0, 0, 99, "all", **alone)])
    found = page(path, "--set", "castle.suppression=generalize")
    assert found.tables["Rows by outcome"][1] == [
        ["published, generalized", "4", "80.0%"],
        ["published fully generalized: unknown reason", "1", "20.0%"],
        ["total", "5", "100.0%"],
    ]
    assert "none was suppressed" in found.text
    assert dict(found.tables["Sizes of groups"][1])["minimum persons of the group"] == "2"


def test_a_summary_of_another_run_is_told(job: Path) -> None:
    write_csv(job.parent / "released", [*ALIKE, *ALIKE[:2]], name="part-0-1")
    write_csv(job.parent / "audit", [AUDITED[0] | {"release_id": 2}], name="part-0-1")
    assert "this run released 4" in " ".join(page(job).text.split())


def test_numbers_that_do_not_add_up_are_refused(job: Path) -> None:
    path = job.parent / "summary" / "part-0-0"
    path.write_text(path.read_text(encoding="utf-8").replace("0,released,4", "0,released,3"), encoding="utf-8")
    result = report(job, "--output", job.parent / "out.html")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "sinks.summary: 1 tuples are unaccounted for" in result.stderr
    assert not (job.parent / "out.html").exists()


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("nowhere/out.html", "out.html cannot be written: its folder does not exist"),
        ("released/part-0-0/out.html", "out.html cannot be written: its folder does not exist"),
    ],
)
@pytest.mark.parametrize("command", ["report", "run"])
def test_a_place_that_cannot_be_written_is_told_before_anything_is_read(
    job: Path, command: str, output: str, why: str
) -> None:
    option = "--output" if command == "report" else "--report"
    result = CliRunner().invoke(app, [command, str(job), option, str(job.parent / output)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_folder_is_no_file(job: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(job), "--report", str(job.parent)])
    assert result.exit_code == 2
    assert "is a folder; name a file, such as" in result.stderr


def test_outputs_that_are_not_there_are_named_by_their_field(tmp_path: Path) -> None:
    result = report(configure(tmp_path), "--output", tmp_path / "out.html")
    assert result.exit_code == 2
    assert "sinks.released.path: " in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_fixed_seed_and_a_key_are_not_told(job: Path) -> None:
    text = page(job, "--set", "seed=271828", "--set", "subject_key=a key of sixteen bytes").text
    assert "271828" not in text
    assert "sixteen" not in text
    assert "fixed" in text


def test_times_are_told_in_units_that_people_count_in(job: Path) -> None:
    text = page(job, "--set", "castle.delay.event_time=36 h").text
    assert "36 h" in text
    assert "129600000" not in text


def test_a_hash_of_the_settings_follows_what_is_promised_and_no_secret(job: Path) -> None:
    def digest(*overrides: str) -> str:
        return settings_digest(load(job, list(overrides)))

    assert digest() == digest("subject_key=another key of 16 bytes", "seed=3", "sinks.audit=null")
    changed = ("privacy.k=3", "castle.delay.tuples=99", "privacy.t=0.5", "policy.quasi_identifiers.age.ends=5")
    found = [digest(), *map(digest, changed)]
    assert len(set(found)) == len(found)


def test_what_attacks_found_is_on_the_page(job: Path) -> None:
    found = {
        "name": "linking",
        "knows": "all",
        "success": 0.2,
        "low": 0.1,
        "high": 0.3,
        "promised": 0.05,
        "above": True,
    }
    printed = {
        "tuples": 5,
        "whole": True,
        "outputs": None,
        "replays": {"released": 5, "attacks": [found], "queries": {}},
    }
    file = job.parent / "attacks.json"
    file.write_text(json.dumps(printed), encoding="utf-8")
    shown = page(job, "--attacks", str(file))
    assert shown.tables["Success of attacks, on replays of the input"][1] == [
        ["linking", "all", "20.00%", "10.00% to 30.00%", "-", "5.00%, above", ""]
    ]
    assert "1 of 1 attacks succeeds significantly more often" in shown.text


@pytest.mark.parametrize("text", ["", "{}", '{"replays": {"attacks": [{"name": "linking"}]}}'])
def test_a_file_that_holds_no_attacks_is_told(job: Path, text: str) -> None:
    file = job.parent / "attacks.json"
    file.write_text(text, encoding="utf-8")
    result = report(job, "--attacks", file)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "--attacks: " in result.stderr
    assert report(job, "--attacks", job.parent / "none.json").exit_code == 2
