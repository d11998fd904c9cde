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
from crenel.jobs.config.load import load
from crenel.jobs.local.java import JavaError
from crenel.jobs.local.logs import JobError
from crenel.operators.digests import in_force_digest
from tests.support.outputs import ALIKE, AUDITED, configure, member, release, write_csv, write_json


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


def restored(
    folder: Path, options: str, *overrides: str, apart: bool = False, stated: bool = True
) -> tuple[Path, Path]:
    """Return two configurations, of which the second one has k = 3 and a sensitive column more, and their outputs.

    ``apart``: whether each has folders of its own; ``stated``: whether the audit log states the settings in force.
    """
    before = configure(folder, ("released", "audit"), options)
    text = before.read_text(encoding="utf-8").replace("[illness]", "[illness, ward]").replace("k: 2", "k: 3")
    text = text.replace("illness STRING", "illness STRING, ward STRING").replace("illness, seen", "illness, ward, seen")
    text = text.replace("l: 2}", "l: 2, sensitive: {ward: {l: 1}}}")
    folders = {name: folder / (f"{name}-after" if apart else name) for name in ("released", "audit")}
    for name, place in folders.items():
        text = text.replace(f"path: {folder / name}", f"path: {place}")
    after = folder / "after.yaml"
    after.write_text(text, encoding="utf-8")
    digests = [in_force_digest(load(path, list(overrides))) for path in (before, after)]
    former = [_stating(row, digests[0]) if stated else row for row in AUDITED]
    ward = {"diversity_ward": 3}
    later = [release(number, 0, 60, 70, "all", subjects=3, tuples=3, k=3, diversity_illness=3) for number in (2,)]
    later = [_behind(row, "diversity_illness", ward) for row in later]
    later = [_behind(row, "l", {"l_ward": 1}) for row in later]
    later = [_stating(row, digests[1]) if stated else row for row in later]
    of_later = [member(60, 70, "all", illness, number) for number, illness in enumerate(("flu", "gout", "cold"), 7)]
    of_later = [_behind(row, "illness", {"ward": ward}) for row, ward in zip(of_later, ("u", "v", "w"), strict=True)]
    write = write_json if options == "json" else write_csv
    write(folder / "released", ALIKE)
    write(folder / "audit", former)
    write(folders["released"], of_later, "part-1-0")
    write(folders["audit"], later, "part-1-0")
    if not apart and options == "csv":  # as where a file holds lines of both
        for name in folders:
            first, second = (folder / name / part for part in ("part-0-0", "part-1-0"))
            first.write_text(first.read_text("utf-8") + second.read_text("utf-8"), encoding="utf-8")
            second.unlink()
    return before, after


def _behind(row: dict[str, Any], name: str, more: dict[str, Any]) -> dict[str, Any]:
    """Return a row with further columns behind one of its columns."""
    place = list(row).index(name) + 1
    return dict([*list(row.items())[:place], *more.items(), *list(row.items())[place:]])


def _stating(row: dict[str, Any], digest: str) -> dict[str, Any]:
    return _behind(row, "loss", {"in_force": digest})


@pytest.mark.parametrize("apart", [False, True], ids=["one folder", "folders of their own"])
@pytest.mark.parametrize("options", ["csv", "json"])
def test_a_job_that_was_restored_with_another_k_and_column_is_verified_with_both(
    options: str, apart: bool, tmp_path: Path
) -> None:
    before, after = restored(tmp_path, options, apart=apart)
    both = verify(before, after)
    assert (both.exit_code, both.stderr) == (0, ""), both.stdout
    found = {check["name"]: check for check in json.loads(verify(after, before, "--json").stdout)["checks"]}
    assert (
        found["k under after.yaml"]["words"] == "3 persons or more, and no more than rows, as each of 1 releases says"
    )
    assert found["l of ward under after.yaml"]["outcome"] == "holds"
    assert found["cover"]["words"].startswith("7 released rows are the tuples of 3 releases")
    alone = verify(before)
    assert alone.exit_code == (0 if apart else 2)  # of its own folder, it has all
    assert apart or "'crenel verify' reads them with all of these" in alone.stderr
    file = after.parent / ("released-after" if apart else "released")
    for part in file.iterdir():
        part.write_text("".join(part.read_text("utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    broken = verify(before, after)
    assert broken.exit_code == 1
    assert "shard 0, release 2: has 3 tuples, and there are 2 released rows" in broken.stdout


def test_outputs_of_an_older_version_are_judged_by_the_numbers_that_they_state(tmp_path: Path) -> None:
    before, after = restored(tmp_path, "json", stated=False)
    assert verify(before, after).exit_code == 0
    other = verify(before, after, "--set", "privacy.l=1")
    assert other.exit_code == 1
    assert "says values in force, k 2 among them, that no given configuration has" in other.stdout
    assert "crenel verify BEFORE.yaml AFTER.yaml" in other.stdout


def test_settings_that_are_not_given_are_broken_and_named(tmp_path: Path) -> None:
    before, after = restored(tmp_path, "json")
    result = verify(before, after, "--set", "privacy.l=1")
    assert result.exit_code == 1
    assert "and none of those given has it" in result.stdout


def test_configurations_that_no_restore_joins_are_refused(tmp_path: Path) -> None:
    before, after = restored(tmp_path, "json")
    without = verify(before, after, "--set", "sinks.audit=null")
    assert (without.exit_code, without.stdout) == (2, "")
    assert "sinks.audit: is missing, and only it states the configuration of each release" in without.stderr
    third = after.with_name("third.yaml")
    third.write_text(after.read_text("utf-8").replace("[0, 99]", "[0, 98]"), encoding="utf-8")
    for other in (before, after):
        result = verify(before, after, third) if other is before else verify(after, third)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"policy.quasi_identifiers.age.domain: not the same in {other.name} and third.yaml" in result.stderr
    keys = [before.with_name(f"{name}.yaml") for name in ("old", "new")]
    for key in keys:
        text = f"{before.read_text('utf-8')}audit_chain: {{key: key of {key.stem}}}\n"
        key.write_text(text, encoding="utf-8")
    result = verify(*keys)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "audit_chain.key: not the same in old.yaml and new.yaml" in result.stderr


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
