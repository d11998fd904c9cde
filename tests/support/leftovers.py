"""Nothing that a test run has started outlives it, however it ends: by itself, by Ctrl-C, by ``kill -9``.

A pytest plugin. Whatever the tests start inherits a variable of the environment that names the run: Java, the Python
workers that Java starts, and what has left its process group. A process apart waits for the end of pytest, and then
kills all that has the variable. Linux only: elsewhere nothing tells the environment of a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

MARK = "CRENEL_TEST_RUN"
_PROCESSES = Path("/proc")
_POLL = 0.2  # seconds between two looks at pytest
_ROUNDS = 3  # with nothing left in any: a process that is about to start another does not escape


def pytest_configure(config: Any) -> None:
    """Begin to wait; the workers of pytest-xdist are part of the run that started them."""
    if not hasattr(config, "workerinput") and (_PROCESSES / "self" / "environ").exists():
        _watch()


def marked(run: str) -> Iterator[int]:
    """Yield the processes that a run has started, and theirs; none that has ended and only waits to be reaped."""
    wanted = f"{MARK}={run}".encode()
    for folder in _PROCESSES.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it has ended, or is another user's
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


def _watch() -> None:
    run = uuid4().hex
    os.environ.pop(MARK, None)
    subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), run],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the tests
    )
    os.environ[MARK] = run


def _main(parent: int, run: str) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL)
    empty = 0
    while empty < _ROUNDS:
        found = list(marked(run))
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        empty = 0 if found else empty + 1
        time.sleep(_POLL / 4)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
