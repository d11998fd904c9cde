"""The command line, as far as it goes without Flink."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from typer.testing import CliRunner, Result

from crenel import __version__
from crenel.anonymity.model.fingerprint import fingerprint
from crenel.jobs.cli.app import app
from crenel.jobs.config.load import load
from crenel.state.castle import VERSION
from tests.jobs.cli.test_savepoint import STATE, savepoint
from tests.support.launch import Host

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
    assert f"{DEMO} cannot go on from {place}:\n  - {problem}" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.cluster("mini")
def test_check_compares_a_configuration_with_stored_state(mini: Host, tmp_path: Path) -> None:
    config = load(DEMO)
    published = {"diagnosis": "STRING", "clinic": "STRING"}
    another = {"source.query": "SELECT another"}
    name = config.algorithm.name
    was = fingerprint(config.policy, config.shards, config.subject_key, published, algorithm=name, source=another)
    place = savepoint(tmp_path, *(b"." + replace(STATE, shard=i, fingerprint=was).to_bytes() + b"." for i in (0, 2, 3)))
    may = ["--set", "privacy.k=20", "--set", "nearest.loss_window=9", "--set", "seed=8", "--set", "sinks.audit=null"]
    domain = "policy.quasi_identifiers.age.domain"
    may_not = ["--set", f"{domain}=[18, 99]", "--set", "policy.missing=value", "--set", "policy.passthrough=null"]

    def check(arguments: list[str]) -> CompletedProcess[str]:
        return mini.crenel("check", DEMO, "--against", place, *arguments)

    noised = "sampling_and_noise={sample_rate: 1, phi: 9, range: observed}"
    fits = check(may)
    differs = check([*may_not, "--set", "policy.drop=[name, clinic]", "--set", noised])
    assert fits.returncode == 0, fits.stderr
    assert fits.stdout.startswith(
        f"{DEMO} is valid.\nIt can go on from {place}: the state of 3 of 4 shards.\n"
        "Warning: source.query: the query has changed since the state was stored. "
    )
    assert (differs.returncode, differs.stdout) == (2, "")
    head, *problems = differs.stderr.splitlines()
    assert head == f"crenel: {DEMO} cannot go on from {place}:"
    assert [problem.split(" since")[0] for problem in problems] == [
        "  - policy.missing: has changed",
        "  - policy.passthrough: has changed",
        f"  - {domain}: has changed",
        "  - policy.quasi_identifiers.age.step: is new",
        "  - policy.quasi_identifiers.area.hierarchy: has changed",
        "  - policy.quasi_identifiers.education.hierarchy: has changed",
        "  - policy.quasi_identifiers.salary.step: is new",
        "  - sampling_and_noise: is new",
        "  - type of the column clinic: is gone",
    ]


@pytest.mark.cluster("mini")
def test_sampling_and_noise_are_shown_with_what_is_lost(mini: Host) -> None:
    noised = ["--set", "sampling_and_noise={sample_rate: 0.5, phi: 100, range: observed}"]
    noised += ["--set", "policy.quasi_identifiers.salary.step=100"]
    shown = mini.crenel("check", DEMO, *noised)
    started = mini.crenel("run", DEMO, *noised, "--set", "source.ddl=CREATE NOTHING")
    assert started.returncode == 2
    assert started.stderr.startswith("crenel: warning: sampling_and_noise.range: observed scales noise by")
    assert shown.returncode == 0, shown.stderr
    assert f"{DEMO} is valid.\nWarning: sampling_and_noise.range: observed scales noise by" in shown.stdout
    lines = [line.split(maxsplit=1) for line in shown.stdout.partition("\ndifferential privacy\n")[2].splitlines()[:7]]
    assert ["sample_rate", "0.5 of all tuples are admitted"] in [[name, rest.strip()] for name, rest in lines]
    noise = [rest.strip() for name, rest in lines if name == "noise"]
    # The source's types say what the step of age is.
    assert noise[0].startswith("age: scale 1 % of range, in steps of 1; 95 % move by 2.996 %")
