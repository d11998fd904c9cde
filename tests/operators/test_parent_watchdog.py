"""A Python worker does not outlive the Java that has started it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from crenel.operators.parent_watchdog import end_with_java
from tests.support.launch import ROOT
from tests.support.processes import running

# As Flink starts one: a shell in between, which stays when Java is gone.
WORKER = """
import os, sys, time
from types import SimpleNamespace
from crenel.operators.parent_watchdog import end_with_java

sys.modules["__main__"].__spec__ = SimpleNamespace(name="pyflink.fn_execution.beam.beam_boot")
end_with_java()
end_with_java()
print(os.getpid(), os.getppid(), flush=True)
time.sleep(600)
"""
JAVA = """
import subprocess, sys
subprocess.run(["sh", "-c", '"$0" -c "$1" 2>&1 | tee "$2"', *sys.argv[1:]])
"""


def test_a_worker_ends_with_the_java_that_started_it(tmp_path: Path) -> None:
    written = tmp_path / "written"
    java = subprocess.Popen(
        [sys.executable, "-c", JAVA, sys.executable, WORKER, str(written)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait(lambda: written.exists() and written.read_text(encoding="utf-8").endswith("\n"))
        worker, shell = map(int, written.read_text(encoding="utf-8").split())
        time.sleep(1.5)
        assert running(worker)
    finally:
        java.kill()
        java.wait()
    wait(lambda: not running(worker) and not running(shell))


def test_a_process_that_is_no_worker_watches_nobody() -> None:
    end_with_java()
    assert "crenel-orphan" not in [thread.name for thread in threading.enumerate()]


def wait(done: Callable[[], bool]) -> None:
    """Wait for something to come true; fails where it takes too long."""
    until = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)
