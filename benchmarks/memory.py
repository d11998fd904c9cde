"""Memory of a local run: what ``crenel run`` holds at most, Java and Python, by how many rows it reads.

``python -m benchmarks.memory 20000000`` measures other numbers of rows than those of the table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import job
from benchmarks.measure import Table, descendants, resident

_ROWS = (300_000, 2_000_000)
_FILE = 500_000  # rows of a file of the source, which reads one after the other
_EVERY = 0.2  # seconds between two looks
_MOST = 2e9


def _source(rows: int, folder: Path) -> Path:
    """Return a folder of links to files that hold so many rows in total."""
    source = Path(tempfile.mkdtemp(dir=folder))
    for number, begin in enumerate(range(0, rows, _FILE)):
        (source / f"{number:04}.csv").symlink_to(job.rows_file(min(_FILE, rows - begin), folder))
    return source


def most(rows: int, folder: Path) -> tuple[int, int, int]:
    """Bytes that ``crenel run`` of so many rows held at most: Python, Java, and both together."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        given = job.variables(1, folder, output) | {"BENCH_INPUT": str(_source(rows, folder))}
        command = [sys.executable, "-m", "crenel.jobs.cli.main", "run", str(job.CONFIGURATION)]
        python = java = total = 0
        with subprocess.Popen(command, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            while run.poll() is None:
                ours, of_children = resident(run.pid), sum(map(resident, descendants(run.pid)))
                python, java, total = max(python, ours), max(java, of_children), max(total, ours + of_children)
                time.sleep(_EVERY)
        if run.returncode:
            raise RuntimeError(f"the job ended with {run.returncode}")
        return python, java, total


def memory_table(sizes: tuple[int, ...] = _ROWS) -> Table:
    """Print the maximum memory of a local run, by rows."""
    table = Table(
        "Memory of a local run (`crenel run`, parallelism 1, CSV to CSV, Adult repeated, k = 10, delta = 1,000)",
        ["rows", "Python, MB", "Java, MB", "at most at once, MB", "to reach"],
    )
    with tempfile.TemporaryDirectory() as folder:
        for rows in sizes:
            held = most(rows, Path(folder))
            table.add(f"{rows:,}", *(f"{amount / 1e6:,.0f}" for amount in held), f"< {_MOST / 1e6:,.0f}")
    return table


def tables() -> list[Table]:
    """Print all tables of this file."""
    return [memory_table()]


if __name__ == "__main__":
    print(memory_table(tuple(map(int, sys.argv[1:])) or _ROWS), os.linesep)
