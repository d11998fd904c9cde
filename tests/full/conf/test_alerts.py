"""The alerts and the configuration of Prometheus, by its own tool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.prometheus import needs_prometheus
from tests.support.queries import SCRAPE

pytestmark = needs_prometheus


def test_promtool_takes_them() -> None:
    assert "rules found" in promtool("check", "config", SCRAPE)


def test_they_fire_when_they_should_and_else_do_not() -> None:
    assert "SUCCESS" in promtool("test", "rules", Path(__file__).with_name("alerts.yml"))


def promtool(*arguments: str | Path) -> str:
    """Return the output for a valid file."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
