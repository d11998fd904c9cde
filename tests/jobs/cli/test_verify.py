"""``crenel verify``: its exit codes, and what it prints, on files that were written by hand."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner, Result

from crenel.jobs.cli.app import app
from crenel.jobs.local.java import JavaError
from crenel.jobs.local.logs import JobError
from tests.support.outputs import ALIKE, AUDITED, configure, write_csv


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return a configuration, and outputs in which everything holds."""
    path = configure(tmp_path)
    write_csv(tmp_path / "released", ALIKE)
    write_csv(tmp_path / "audit", AUDITED)
    return path


def verify(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def test_what_holds_ends_with_0_and_says_what_nobody_can_see(job: Path) -> None:
    result = verify(job)
    assert result.exit_code == 0
    assert "All checked statements hold." in result.stdout
    assert "distinct persons  not seen" in result.stdout


def test_a_changed_release_ends_with_1_and_is_named(job: Path) -> None:
    write_csv(job.parent / "released", ALIKE[1:])
    result = verify(job)
    assert result.exit_code == 1
    assert "shard 0, release 0: has 2 tuples, and there are 1 released rows" in result.stdout
    found = json.loads(verify(job, "--json").stdout)
    assert found["holds"] is False
    (cover,) = [check for check in found["checks"] if check["name"] == "cover"]
    assert cover["outcome"] == "broken"
    assert [(row["shard"], row["release"]) for row in cover["findings"]] == [(0, 0)]


def test_without_audit_it_ends_with_3_and_names_what_was_not_checked(job: Path) -> None:
    result = verify(job, "--set", "sinks.audit={connector: blackhole}")
    assert result.exit_code == 3
    assert "All checked statements hold." not in result.stdout
    assert "statements were not checked (release ids, cover, in force" in result.stdout
    assert re.search(r"^cover +NOT CHECKED +sinks.audit is missing", result.stdout, re.MULTILINE)
    found = json.loads(verify(job, "--set", "sinks.audit=null", "--json").stdout)
    assert (found["holds"], found["outcome"]) == (False, "unchecked")
    assert {check["name"] for check in found["checks"] if check["outcome"] == "unchecked"} >= {"cover", "k"}
    # The exit code reports a violation among the other checks.
    write_csv(job.parent / "released", ALIKE[1:])
    assert verify(job, "--set", "sinks.audit=null").exit_code == 1


def test_a_value_outside_its_domain_is_broken_and_not_of_another_policy(job: Path) -> None:
    write_csv(job.parent / "released", [*ALIKE[:3], ALIKE[3] | {"age_max": 4321}])
    result = verify(job)
    assert result.exit_code == 1
    assert "column 'age_max' of released lies outside its domain in row 4" in result.stdout
    assert "4321" not in result.stdout + result.stderr


def test_another_configuration_is_told_by_what_was_in_force(job: Path) -> None:
    result = verify(job, "--set", "privacy.k=3")
    assert result.exit_code == 1
    assert "says k 2, and the configuration 3, and so do 1 more releases" in result.stdout
    assert "shard 0, release 0: has 2 persons" in result.stdout


def test_what_cannot_be_read_ends_with_2_in_one_line(job: Path) -> None:
    file = job.parent / "audit" / "part-0-0"
    file.write_bytes(file.read_bytes()[:-1])
    result = verify(job)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"crenel: {job}: sinks.audit.path: ")
    assert result.stderr.count("\n") == 1


def unreadable_folder(job: Path, patch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def scandir(path: str | Path) -> Any:
        if Path(path).name == "audit":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    patch.setattr(os, "scandir", scandir)


def no_folder(job: Path, patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(job.parent / "audit")


def link_to_nowhere(job: Path, patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(job.parent / "audit")
    (job.parent / "audit").symlink_to(job.parent / "not mounted")


def file_to_nowhere(job: Path, patch: pytest.MonkeyPatch) -> None:
    (job.parent / "audit" / "part-0-1").symlink_to(job.parent / "not mounted")


def half_a_line(job: Path, patch: pytest.MonkeyPatch) -> None:
    file = job.parent / "audit" / "part-0-0"
    file.write_bytes(file.read_bytes()[:-1])


def no_text(job: Path, patch: pytest.MonkeyPatch) -> None:
    (job.parent / "released" / "part-0-1").write_bytes(b"\xff\xfe,1,2,3,4\n")


def through_flink(error: Exception) -> Callable[[Path, pytest.MonkeyPatch], None]:
    """Return a fault of a sink that is read through Flink, beside folders that can be read."""

    def fault(job: Path, patch: pytest.MonkeyPatch) -> None:
        def read_tables(*_: object) -> NoReturn:
            raise error

        patch.setattr("crenel.jobs.local.sink_tables.read_tables", read_tables)
        configure(job.parent, ("released", "audit"))
        with job.open("a", encoding="utf-8") as file:
            file.write("  suppressed: {connector: jdbc}\naccept_duplicates: true\n")

    return fault


FAULTS: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch], None], str]] = {
    "folder without permission": (unreadable_folder, "sinks.audit.path: {folder}/audit cannot be read: Permission"),
    "no folder": (no_folder, "sinks.audit.path: {folder}/audit: does not exist, and sinks.released holds 4 rows"),
    "link to a disk that is away": (link_to_nowhere, "sinks.audit.path: {folder}/audit cannot be read: No such file"),
    "file on a disk that is away": (file_to_nowhere, "sinks.audit.path: {folder}/audit cannot be read: No such file"),
    "half-written file": (half_a_line, "sinks.audit.path: {folder}/audit: part-0-0 is cut off in the middle"),
    "broken file": (no_text, "sinks.released.path: {folder}/released: part-0-1 is not CSV"),
    "job that reads": (
        through_flink(JobError("Kafka is away", Path("logs"))),
        "Kafka is away\nFlink's logs are in logs",
    ),
    "no Java": (through_flink(JavaError("no Java")), "crenel: no Java"),
    "unexpected": (through_flink(RuntimeError("unforeseen")), "an unexpected error ended the command"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_outputs_that_cannot_be_read_are_never_called_broken(
    fault: str, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, message = FAULTS[fault]
    damage(job, monkeypatch)
    result = verify(job)
    assert message.format(folder=job.parent) in result.stderr
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("command", ["attack", "report", "plan", "why", "regions"])
def test_a_source_or_output_that_cannot_be_read_is_no_verdict_of_other_commands(
    command: str, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise JobError("Kafka is away", Path("logs"))

    for place in ("evidence.load", "app.load", "attack.load", "report.load", "plan.load", "why.load", "regions.load"):
        monkeypatch.setattr(f"crenel.jobs.cli.{place}", refuse, raising=False)
    arguments = ["--count", "2", "--write", str(job.parent / "r")] if command == "regions" else []
    result = CliRunner().invoke(app, [command, str(job), *arguments])
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "crenel: Kafka is away")


def test_what_is_no_earlier_verdict_ends_with_2_in_one_line(job: Path) -> None:
    earlier = job.parent / "earlier.json"
    unchained = verify(job, "--since", earlier)
    assert unchained.exit_code == 2
    assert unchained.stderr.startswith(f"crenel: {job}: audit_chain: is missing, and --since")
    unchained = verify(job, "--run", "7c775bdec33b1de4")
    assert unchained.exit_code == 2
    assert unchained.stderr.startswith(f"crenel: {job}: audit_chain: is missing, and --run")
    for content, message in (
        (None, "cannot be read: No such file"),
        ("[]", "is not an output of"),
        ("{", "is not an output of"),
    ):
        if content is not None:
            earlier.write_text(content, encoding="utf-8")
        found = verify(job, "--set", "audit_chain={}", "--since", earlier)
        assert found.exit_code == 2
        assert message in found.stderr
        assert found.stderr.count("\n") == 1
