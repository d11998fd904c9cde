"""``crenel plan``, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crenel.jobs.cli.app import app
from crenel.jobs.cli.cli_common import in_minutes

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "conf" / "demo.yaml"


@pytest.fixture(autouse=True)
def demo_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRENEL_DEMO_INPUT", "/nowhere/in.csv")
    monkeypatch.setenv("CRENEL_DEMO_OUTPUT", "/nowhere")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--max-delay", "10"), "--max-delay: "),
        (("--max-suppressed", "many"), "--max-suppressed: "),
        (("--vary", "color=red"), "--vary: "),
        (("--vary", "k=0"), "--vary k: "),
        (("--plot", "picture.pdf"), "--plot: "),
    ],
)
def test_an_option_that_cannot_be_is_one_line(options: tuple[str, ...], named: str) -> None:
    result = CliRunner().invoke(app, ["plan", str(DEMO), *options])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"crenel: {named}")
    assert result.stderr.count("\n") == 1


def test_times_are_told_in_minutes() -> None:
    assert (in_minutes(90_000), in_minutes(6_000), in_minutes(6 * 3_600_000)) == ("1.5 min", "0.1 min", "360 min")
