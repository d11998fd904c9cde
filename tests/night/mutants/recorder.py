"""A pytest plugin that runs the planned tests in their order, and records what each takes and how it ends.

Time is that of the processor, of the process and of those that it has started and waited for, so that a busy machine
changes neither the plan nor what counts as a hang.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PLAN = "CRENEL_MUTANTS_PLAN"
"""The environment variable that names the file of a plan: where the record goes, and the tests with their limits."""


class Recorder:
    """One line of JSON at the start and at the end of each test: its name, its outcome, its seconds, its error."""

    def __init__(self, record: str, limits: dict[str, float] | None) -> None:
        self._record = Path(record)
        self._limits = limits
        self._outcome, self._error = "passed", ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._limits is not None:
            known = {item.nodeid: item for item in items}
            items[:] = [known[name] for name in self._limits if name in known]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self._outcome, self._error = "passed", ""
        self._write(item.nodeid, "started", 0.0)
        if self._limits is not None:
            # The kernel ends the process then, also within a compiled loop.
            signal.setitimer(signal.ITIMER_PROF, self._limits[item.nodeid])
        before = sum(os.times()[:4])
        result = yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._write(item.nodeid, self._outcome, sum(os.times()[:4]) - before)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed" and self._outcome != "failed":
            self._outcome = report.outcome
            self._error = str(getattr(getattr(report.longrepr, "reprcrash", None), "message", ""))

    def _write(self, test: str, outcome: str, seconds: float) -> None:
        with self._record.open("a", encoding="utf-8") as file:
            file.write(json.dumps([test, outcome, seconds, self._error.partition("\n")[0][:200]]) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Record where a plan is named."""
    if PLAN in os.environ:
        plan = json.loads(Path(os.environ[PLAN]).read_text(encoding="utf-8"))
        config.pluginmanager.register(Recorder(**plan))
