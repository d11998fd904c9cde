"""``crenel why``, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crenel.jobs.cli.app import app

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "conf" / "demo.yaml"


@pytest.fixture(autouse=True)
def demo_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRENEL_DEMO_INPUT", "/nowhere/in.csv")
    monkeypatch.setenv("CRENEL_DEMO_OUTPUT", str(tmp_path / "out"))


def test_outputs_that_are_not_there_are_one_line() -> None:
    result = CliRunner().invoke(app, ["why", str(DEMO), "--outputs"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"crenel: {DEMO}: sinks.released.path: ")
    assert result.stderr.count("\n") == 1
