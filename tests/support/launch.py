"""Runs the command line in a process of its own, and reads what a job has written."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol, TypeVar

from tests.support import host

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
"""Folder of data sets of others; tests that read it are skipped where it is absent."""

TIMEOUT = 600  # seconds: the first run compiles the core, and machines are shared


def crenel(*arguments: str | Path, mode: str = "loopback") -> CompletedProcess[str]:
    """``crenel ARGUMENTS``, with Python workers in that process (``loopback``) or their own (``process``)."""
    started = start(*arguments, mode=mode)
    try:
        out, err = started.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        started.kill()
        raise
    return CompletedProcess(started.args, started.returncode, out, err)


def start(*arguments: str | Path, mode: str = "loopback") -> subprocess.Popen[str]:
    """Return the same, while it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "crenel.jobs.cli.main", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "_python_worker_execution_mode": mode},
    )


class Host:
    """A process that runs one ``crenel`` after another; each has a mini-cluster of its own, but Java starts once."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="crenel-host-"))  # short: a socket's path has 107 bytes at most
        self._printed = self._folder / "printed"
        with self._printed.open("wb") as printed:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.host", str(self._folder / "socket")],
                # A process that still uses the folder is killed, and its files disappear with it.
                env={**environment(), "TMPDIR": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + TIMEOUT
        while not (self._folder / "socket").exists():
            assert self._process.poll() is None, self._printed.read_text(encoding="utf-8")
            assert time.monotonic() < until, "the process of many jobs does not start"
            time.sleep(0.05)

    @property
    def process(self) -> int:
        """The id of that process."""
        return self._process.pid

    @property
    def folder(self) -> Path:
        """Its temporary folder."""
        return self._folder

    def crenel(self, *arguments: str | Path, mode: str = "loopback", **more: str) -> CompletedProcess[str]:
        """Run ``launch.crenel`` with ``more`` variables; stderr also holds Java's output."""
        return self._ask("crenel", arguments, {"_python_worker_execution_mode": mode, **more})

    def paced(self, *arguments: str | Path, **more: str) -> CompletedProcess[str]:
        """Start a job whose query calls ``paced`` (``tests/support/paced.py``), with workers of its own."""
        return self._ask("paced", arguments, {"_python_worker_execution_mode": "process", **more})

    def _ask(self, program: str, arguments: Sequence[str | Path], more: dict[str, str]) -> CompletedProcess[str]:
        before = self._printed.stat().st_size
        done = host.ask(self._folder / "socket", program, *arguments, **environment(), **more)
        done.stderr += self._printed.read_bytes()[before:].decode()
        return done

    def stop(self) -> None:
        """End the process; its Java ends with it."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder)


class Startable(Protocol):
    """Service that is started and stopped, such as a cluster."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


_Started = TypeVar("_Started", bound=Startable)


@contextmanager
def running(made: _Started) -> Iterator[_Started]:
    """Start a process that runs until the end of the block."""
    try:
        made.start()
        yield made
    finally:
        made.stop()


def environment() -> dict[str, str]:
    """Return the environment of this process, in which Python finds the project, installed or not."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


def rows_of(folder: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return all rows of a CSV sink; fail where a row has other columns than these."""
    rows = []
    for path in sorted(folder.rglob("part-*")):
        with path.open(encoding="utf-8", newline="") as file:
            rows += rows_in(file, columns)
    return rows


def rows_in(lines: Iterable[str], columns: Sequence[str]) -> list[dict[str, str]]:
    """Rows of CSV; fails where a row has other than these columns."""
    return [dict(zip(columns, values, strict=True)) for values in csv.reader(lines, strict=True)]
