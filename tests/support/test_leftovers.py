"""Whatever ends a test run, what it has started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launch import environment
from tests.support.leftovers import MARK, marked
from tests.support.processes import command

SECONDS = 60

SLEEPERS = """
import os, subprocess, time
from pathlib import Path

def test_that_never_ends(tmp_path):
    # A process in a session of its own, whose parent has ended: only its environment tells whose it is.
    subprocess.run(["sh", "-c", "setsid sleep 600 & setsid sleep 600 &"])
    Path("run").write_text(os.environ["CRENEL_TEST_RUN"])
    time.sleep(600)
"""

CLUSTER = """
import os, time
from pathlib import Path
from tests.support.cluster import Cluster
from tests.support.launch import running

def test_that_never_ends(tmp_path):
    with running(Cluster(tmp_path)):
        Path("run").write_text(os.environ["CRENEL_TEST_RUN"])
        time.sleep(600)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_run_that_is_ended_leaves_no_process(tmp_path: Path, end: signal.Signals, workers: str) -> None:
    pytest_run, run = started(tmp_path, SLEEPERS, workers)
    assert len(list(marked(run))) >= 2
    if end == signal.SIGINT:
        os.killpg(pytest_run.pid, end)  # as Ctrl-C does
    else:
        pytest_run.send_signal(end)
    wait(lambda: not list(marked(run)), f"the end of {list(map(command, marked(run)))}")
    pytest_run.wait(SECONDS)


@pytest.mark.cluster("mini")
def test_a_run_that_is_killed_leaves_no_cluster(tmp_path: Path) -> None:
    pytest_run, run = started(tmp_path, CLUSTER, "1")
    commands = "\n".join(map(command, marked(run)))
    for name in ("StandaloneSessionClusterEntrypoint", "TaskManagerRunner", "CliFrontend", "host.py"):
        assert name in commands
    pytest_run.kill()
    pytest_run.wait()
    wait(lambda: not list(marked(run)), "end of the cluster")


def test_what_another_run_has_started_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: "another"})
    try:
        pytest_run, run = started(tmp_path, SLEEPERS, "0")
        pytest_run.kill()
        pytest_run.wait()
        wait(lambda: not list(marked(run)), "end of the run")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def started(folder: Path, test: str, workers: str) -> tuple[subprocess.Popen[bytes], str]:
    """Return a pytest whose test is under way, and the name of its run."""
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    plugin = ("-p", "tests.support.leftovers", "-p", "no:hypothesispytest")
    pytest_run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "-n", workers, *plugin, "test_it.py"],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    written = folder / "run"
    wait(lambda: pytest_run.poll() is not None or (written.exists() and written.read_text() != ""), "start")
    assert pytest_run.poll() is None
    return pytest_run, written.read_text(encoding="utf-8")


def wait(done: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < until, f"no {what} after {SECONDS} s"
        time.sleep(0.1)
