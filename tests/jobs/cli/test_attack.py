"""``crenel attack``: on a whole run, on replays, and what it says of input that cannot be attacked."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crenel.jobs.cli.app import app
from tests.support.outputs import configure


def attack(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["attack", *map(str, arguments)])


@pytest.mark.parametrize("time", ["10", "a while", "1 fortnight"])
def test_a_time_that_is_none_is_told_before_anything_is_read(tmp_path: Path, time: str) -> None:
    result = attack(configure(tmp_path), "--within-time", time)
    assert result.exit_code == 2
    assert result.stderr.endswith("--within-time: must be a duration such as '1 min'\n")
    assert result.stderr.count("\n") == 1


def test_a_run_that_left_nothing_is_told_in_a_line_with_the_way_out(tmp_path: Path) -> None:
    result = attack(configure(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "sinks.released.path: " in result.stderr
    assert "with --replay, only replays of the input are attacked" in result.stderr
