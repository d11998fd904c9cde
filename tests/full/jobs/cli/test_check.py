"""``crenel check`` with a source that Flink knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest

from crenel.anonymity.model.fingerprint import fingerprint
from crenel.jobs.config.load import load
from crenel.state.columns import with_roles
from tests.jobs.cli.test_savepoint import STATE, savepoint
from tests.support.launch import Host

ROOT = Path(__file__).resolve().parents[4]

DEMO = ROOT / "conf" / "demo.yaml"


@pytest.fixture(autouse=True)
def demo_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRENEL_DEMO_INPUT", "/nowhere/in.csv")
    monkeypatch.setenv("CRENEL_DEMO_OUTPUT", "/nowhere")


@pytest.mark.flink
def test_check_compares_a_configuration_with_stored_state(mini: Host, tmp_path: Path) -> None:
    config = load(DEMO)
    published = {"diagnosis": "STRING", "clinic": "STRING"}
    another = {"source.query": "SELECT another"}
    name = config.algorithm.name
    was = fingerprint(
        config.policy,
        config.shards,
        config.subject_key,
        published,
        algorithm=name,
        subject_type="STRING",
        source=another,
    )
    members = with_roles(pa.schema([(name, pa.string()) for name in published]), config.policy.roles)
    states = [replace(STATE, shard=i, fingerprint=was, members=members) for i in (0, 2, 3)]
    place = savepoint(tmp_path, *(b"." + state.to_bytes() + b"." for state in states))
    may = ["--set", "privacy.k=20", "--set", "nearest.loss_window=9", "--set", "seed=8", "--set", "sinks.audit=null"]
    domain = "policy.quasi_identifiers.age.domain"
    may_not = ["--set", f"{domain}=[18, 99]", "--set", "policy.missing=value", "--set", "policy.passthrough=null"]
    may_not += ["--set", "policy.sensitive=[diagnosis, clinic]"]

    def check(arguments: list[str]) -> CompletedProcess[str]:
        return mini.crenel("check", DEMO, "--against", place, *arguments)

    noised = "sampling_and_noise={sample_rate: 1, phi: 9, range: observed}"
    fits = check(may)
    removed = check(["--set", "policy.passthrough=null", "--set", "policy.drop=[name, clinic]"])
    differs = check([*may_not, "--set", noised])
    assert fits.returncode == 0, fits.stderr
    assert fits.stdout.startswith(
        f"{DEMO} is valid.\nIt can go on from {place}: the state of 3 of 4 shards.\n"
        "Warning: source.query: the query has changed since the state was stored. "
    )
    assert removed.returncode == 0, removed.stderr
    assert "\nWarning: policy.passthrough: the column clinic is gone; the records that wait are" in removed.stdout
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
        "  - policy.sensitive: has changed",
        "  - sampling_and_noise: is new",
    ]


@pytest.mark.flink
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
