"""The command line, as far as it goes without Flink."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crenel import __version__
from crenel.jobs.cli.app import app
from crenel.state.castle import VERSION
from tests.jobs.cli.test_savepoint import STATE, savepoint

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "conf" / "demo.yaml"


def crenel(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def demo_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRENEL_DEMO_INPUT", "/nowhere/in.csv")
    monkeypatch.setenv("CRENEL_DEMO_OUTPUT", "/nowhere")


def test_the_version_is_that_of_the_package() -> None:
    result = crenel("--version")
    assert (result.exit_code, result.stdout) == (0, f"crenel {__version__}\n")


def test_help_names_every_command() -> None:
    result = crenel("--help")
    assert result.exit_code == 0
    for command in ("run", "check", "budget", "hierarchy", "regions", "demo"):
        assert command in result.stdout


@pytest.mark.parametrize("command", ["run", "check"])
def test_every_problem_of_a_configuration_is_listed(command: str) -> None:
    result = crenel(command, DEMO, "--set", "privacy.k=0", "--set", "nearest.loss_window=0", "--set", "shards.cuont=2")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"{DEMO} is not a valid configuration" in result.stderr
    for field in ("- privacy.k: ", "- nearest.loss_window: ", "- shards.cuont: "):
        assert field in result.stderr
    assert "did you mean 'count'" in result.stderr


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_file_that_is_not_there_is_named(command: str, tmp_path: Path) -> None:
    result = crenel(command, tmp_path / "none.yaml")
    assert result.exit_code == 2
    assert "none.yaml" in result.stderr
    assert "Traceback" not in result.stderr


def test_errors_go_to_stderr_where_json_is_wanted() -> None:
    result = crenel("run", DEMO, "--json", "--set", "privacy.k=0")
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("arguments", [["--parallelism", "0"], ["--parallelism", "two"], ["--sett", "a=b"]])
def test_an_impossible_option_is_refused(arguments: list[str]) -> None:
    result = crenel("run", DEMO, *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.stderr


def test_the_demo_does_not_mix_its_files_with_others(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    result = crenel("demo", "--keep", tmp_path, "--rows", "10")
    assert result.exit_code == 2
    assert "holds files already" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_demo_names_a_folder_that_it_cannot_make(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        result = crenel("demo", "--keep", folder, "--rows", "10")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--keep: cannot be made: is no folder; name an empty or a new folder" in result.stderr


def test_a_sink_that_may_publish_twice_is_told_by_its_field() -> None:
    result = crenel("run", DEMO, "--set", "sinks.audit={connector: print}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "- sinks.audit.connector: is not known to be exactly-once" in result.stderr


@pytest.mark.parametrize("command", ["run", "plan"])
def test_an_input_that_is_not_there_is_refused_before_java_starts(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # to start Java would end with another error
    result = crenel(command, DEMO)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "- source.ddl: 'path' = '/nowhere/in.csv' is not there; give the path of a file" in result.stderr


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ((), "is not a folder"),
        ((b"nothing of ours",), "no state of a shard was found in its files"),
        ((STATE.to_bytes()[:-1] + b"!",), f"shard state of _metadata at byte 0, format version {VERSION}: checksum"),
    ],
)
def test_a_savepoint_that_cannot_be_read_is_told_before_flink_starts(
    tmp_path: Path, files: tuple[bytes, ...], problem: str
) -> None:
    place = savepoint(tmp_path, *files) if files else str(tmp_path / "none")
    # Flink would refuse this statement.
    result = crenel("check", DEMO, "--against", place, "--set", "source.ddl=CREATE NOTHING")
    assert (result.exit_code, result.stdout) == (2, "")
    lead = "cannot go on from" if "checksum" in problem else "was not compared with"
    assert f"{DEMO} {lead} {place}:\n  - {problem}" in result.stderr
    assert "Traceback" not in result.stderr
