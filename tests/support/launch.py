"""Runs the command line in a process of its own, and reads what a job has written."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 600  # seconds: the first run compiles the core, and machines are shared


def crenel(*arguments: str | Path, mode: str = "loopback") -> subprocess.CompletedProcess[str]:
    """``crenel ARGUMENTS``, with Python workers in that process (``loopback``) or their own (``process``)."""
    return subprocess.run(
        [sys.executable, "-m", "jobs.commands.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**environment(), "_python_worker_execution_mode": mode},
        check=False,
    )


def environment() -> dict[str, str]:
    """That of this process, in which Python finds the project, installed or not."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


def rows_of(folder: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """All rows of a CSV sink; fails where a row has other than these columns."""
    rows = []
    for path in sorted(folder.rglob("part-*")):
        with path.open(encoding="utf-8", newline="") as file:
            for values in csv.reader(file, strict=True):
                rows.append(dict(zip(columns, values, strict=True)))
    return rows
