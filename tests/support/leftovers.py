"""Nothing that a test run has started outlives it, however it ends: by itself, by Ctrl-C, by ``kill -9``.

A pytest plugin. Whatever the tests start inherits a variable of the environment that names the run: Java, the Python
workers that Java starts, and what has left its process group. A process apart waits for the end of pytest, and then
kills all that has the variable.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psutil

MARK = "CRENEL_TEST_RUN"
_POLL = 0.2  # seconds between two looks at pytest
_ROUNDS = 3  # with nothing left in any: a process that is about to start another does not escape


def pytest_configure(config: Any) -> None:
    """Begin to wait; the workers of pytest-xdist are part of the run that started them."""
    if not hasattr(config, "workerinput"):
        _watch()


def marked(run: str) -> Iterator[int]:
    """Yield the processes that a run has started, and theirs; none that has ended and only waits to be reaped."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            if process.environ().get(MARK) == run:
                yield process.pid


def _watch() -> None:
    run = uuid4().hex
    os.environ.pop(MARK, None)
    subprocess.Popen(
        [sys.executable, "-I", __file__, str(os.getpid()), run],
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
