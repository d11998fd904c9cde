"""Durations of the suite: seconds, CPU-seconds and starts of Java for each test.

A pytest plugin that records where ``CRENEL_DURATIONS`` names a folder; as a command this makes a page of tables from
that, as ``make durations`` does. CPU-seconds count what a test's process used and whatever it started, so they hold on
a machine that other work loads too. A session-scoped cluster counts for the test that first asks for it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from numba.core.event import Event, Listener, register

from tests.support.leftovers import MARK

VARIABLE = "CRENEL_DURATIONS"
_WORKER = "PYTEST_XDIST_WORKER"
_POLL = 0.25  # seconds; what ends sooner counts what was seen of it
_SLOWEST = 60


class Stopwatch:
    """Processor time since the start, of this process and of those that it has started, without that of numba.

    ``others``: whether running processes count too; ended ones always do, once this process has waited for them.
    """

    def __init__(self, others: bool = False) -> None:
        self._others = others
        self._since = self._used()

    def seconds(self) -> float:
        """Return the seconds so far."""
        return self._used() - self._since

    def _used(self) -> float:
        used = sum(os.times()[:4]) - _compiler.seconds
        for process in psutil.Process().children(recursive=True) if self._others else ():
            with suppress(psutil.Error):  # it has ended
                used += sum(process.cpu_times()[:4])
        return used


class _Compiler(Listener):
    """Processor time that numba has taken in this process to compile functions."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.functions = 0
        self._depth, self._since = 0, 0.0

    def on_start(self, event: Event) -> None:
        if not self._depth:
            self._since = time.process_time()
        self._depth += 1

    def on_end(self, event: Event) -> None:
        self._depth -= 1
        self.functions += 1
        if not self._depth:
            self.seconds += time.process_time() - self._since


_compiler = _Compiler()
register("numba:compile", _compiler)


class _Children(threading.Thread):
    """Watches the processes that have inherited this worker's environment."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        # A worker's own name, or that of the run where pytest is one process.
        self._name = _WORKER if _WORKER in os.environ else MARK
        self._mark = os.environ.get(self._name)
        self._ours: dict[tuple[int, float], bool] = {}
        self._used: dict[tuple[int, float], float] = {}
        self._java: set[tuple[int, float]] = set()
        self._lock = threading.Lock()

    def run(self) -> None:
        while True:
            self.look()
            time.sleep(_POLL)

    def look(self) -> tuple[float, int]:
        """CPU-seconds of all processes so far, and how many of them were Java."""
        with self._lock:
            for process in psutil.process_iter():
                if process.pid != os.getpid():
                    with suppress(psutil.Error):  # it has ended, or is another user's
                        self._read(process)
            return sum(self._used.values()), len(self._java)

    def _read(self, process: psutil.Process) -> None:
        key = process.pid, process.create_time()
        if key not in self._ours:
            self._ours[key] = self._mark is not None and process.environ().get(self._name) == self._mark
        if self._ours[key]:
            times = process.cpu_times()
            self._used[key] = times.user + times.system
            if process.name() == "java" and "-version" not in process.cmdline():
                self._java.add(key)


class Recorder:
    """Writes one line of JSON for each test."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._children = _Children()
        self._children.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        seconds, own, (used, java) = time.monotonic(), time.process_time(), self._children.look()
        compiling, compiled = _compiler.seconds, _compiler.functions
        try:
            return (yield)  # type: ignore[return-value]
        finally:
            (used_after, java_after) = self._children.look()
            record = {
                "test": item.nodeid,
                "group": next((name for name in ("cluster", "flink") if name in item.keywords), "without Flink"),
                "seconds": round(time.monotonic() - seconds, 2),
                "cpu": round(time.process_time() - own + used_after - used, 2),
                "java": java_after - java,
                "compiled": _compiler.functions - compiled,
                "compiling": round(_compiler.seconds - compiling, 2),
            }
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()


def pytest_configure(config: Any) -> None:
    """Record durations on request, in each process that runs tests."""
    in_worker = hasattr(config, "workerinput")
    if (folder := os.environ.get(VARIABLE)) and (in_worker or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(Recorder(Path(folder)))


def page(records: list[dict[str, Any]]) -> str:
    """Return the tables, in Markdown: tiers, folders, files, and the slowest tests."""

    def table(title: str, name: Callable[[dict[str, Any]], str], most: int) -> Iterator[str]:
        summed: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0])
        for record in records:
            for i, amount in enumerate((1, record["seconds"], record["cpu"], record["java"])):
                summed[name(record)][i] += amount
        yield f"\n## {title}\n"
        yield "| | tests | seconds | CPU-seconds | starts of Java |\n|---|---|---|---|---|"
        for key, (tests, seconds, cpu, java) in sorted(summed.items(), key=lambda entry: -entry[1][2])[:most]:
            yield f"| {key} | {tests:.0f} | {seconds:.1f} | {cpu:.1f} | {java:.0f} |"

    def file(record: dict[str, Any]) -> str:
        return str(record["test"].partition("::")[0])

    total = [sum(record[name] for record in records) for name in ("seconds", "cpu", "java")]
    lines: list[str] = [
        "# Where the time of the suite goes",
        "",
        f"Made by `make durations`: {len(records)} tests, {total[0]:.0f} seconds in all processes together, "
        f"{total[1]:.0f} CPU-seconds, {total[2]} starts of Java.",
        *table("Tiers", lambda record: f"{record['tier']}, {record['group']}", 100),
        *table("Folders", lambda record: "/".join(file(record).split("/")[:3]).removesuffix(".py"), 40),
        *table("Files", file, 40),
        *table("Slowest tests", lambda record: str(record["test"]), _SLOWEST),
    ]
    return "\n".join(lines) + "\n"


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Return the records of all processes, each with the name of the folder of its run, which is that of its tier."""
    return [
        {**json.loads(line), "tier": path.parent.name}
        for path in sorted(folder.rglob("*.jsonl"))
        for line in path.open(encoding="utf-8")
    ]


if __name__ == "__main__":
    print(page(recorded(Path(sys.argv[1]))), end="")
