"""A command that is told to stop ends, whatever it does at that moment, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.launch import ROOT
from tests.support.processes import running

# Each says "ready" once it does what a signal is to find it doing.
BEGIN = """
import gc, signal, subprocess, sys, threading, time
from crenel.jobs.local import stop

stop.watch()
stop.set_stop_message("stopped here")
"""
IN_A_COLLECTION = """
class Dropped:
    def __del__(self):  # what is raised in here, Python prints and forgets
        print("ready", flush=True)
        time.sleep(60)

with stop.temporary_folder("crenel-"):
    Dropped()
time.sleep(60)
"""
WITH_PROCESSES = """
with stop.temporary_folder("crenel-") as folder:
    # One that a signal does not end, with one of its own, and one whose parent has ended.
    orphan = "$(sleep 600 >/dev/null & echo $!)"
    command = f"trap '' INT TERM HUP; sleep 600 & echo $$ $! {orphan} > %s; cat" % (folder.parent / "processes")
    subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE)
    while not (folder.parent / "processes").exists() or not (folder.parent / "processes").read_text():
        time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(60)
"""
WITH_A_STEP = """
def step():
    print("step", flush=True)
    time.sleep(SECONDS)

with stop.temporary_folder("crenel-"), stop.before_stopping(step):
    try:
        print("ready", flush=True)
        while True:
            pass
    finally:
        print("not held", flush=True)
"""

WITH_A_CHILD = """
child = "import time; print('ready', flush=True); time.sleep(600)"
with stop.shielded_from_terminal():
    subprocess.Popen([sys.executable, "-c", child])
time.sleep(60)
"""


def started(program: str, folder: Path, ignored: signal.Signals | None = None) -> subprocess.Popen[str]:
    """Start one of the programs, and wait until it is ready."""
    numbers = [number for number in (signal.SIGINT, signal.SIGHUP) if number != ignored]  # `nohup` ignores SIGHUP
    signals = f"import signal\nfor number in {[*map(int, numbers)]}: signal.signal(number, signal.SIG_DFL)\n"
    if ignored is not None:
        signals += f"signal.signal({int(ignored)}, signal.SIG_IGN)\n"
    run = subprocess.Popen(
        [sys.executable, "-c", signals + BEGIN + program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("program", [IN_A_COLLECTION, WITH_PROCESSES])
def test_nothing_is_left(tmp_path: Path, program: str, number: signal.Signals) -> None:
    run = started(program, tmp_path)
    run.send_signal(number)
    output = run.communicate(timeout=20)
    assert (run.returncode, output) == (128 + number, ("", "crenel: stopped here\n"))
    if program == WITH_PROCESSES:
        for process in (tmp_path / "processes").read_text(encoding="utf-8").split():
            assert not running(int(process))
        (tmp_path / "processes").unlink()
    assert list(tmp_path.iterdir()) == []


def test_only_the_command_hears_the_terminal(tmp_path: Path) -> None:
    run = started(WITH_A_CHILD, tmp_path)
    os.killpg(run.pid, signal.SIGINT)
    assert run.communicate(timeout=20) == ("", "crenel: stopped here\n")
    assert run.returncode == 130


def test_what_is_to_be_done_first_is_done_while_the_command_stands_still(tmp_path: Path) -> None:
    run = started(WITH_A_STEP.replace("SECONDS", "0.1"), tmp_path)
    run.send_signal(signal.SIGINT)
    assert run.communicate(timeout=20) == ("step\n", "crenel: stopped here\n")
    assert run.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_second_signal_does_not_wait_for_it(tmp_path: Path) -> None:
    run = started(WITH_A_STEP.replace("SECONDS", "600"), tmp_path)
    run.send_signal(signal.SIGINT)
    assert run.stdout is not None
    assert run.stdout.readline() == "step\n"
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(0.5)
    run.send_signal(signal.SIGINT)
    assert run.communicate(timeout=20) == ("", "crenel: stopped here\n")
    assert run.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_it_was_started_to_ignore_is_ignored(tmp_path: Path) -> None:
    # As nohup does; and a shell does so with SIGINT for what it starts in the background.
    run = started(WITH_A_STEP.replace("SECONDS", "0"), tmp_path, ignored=signal.SIGHUP)
    run.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(0.5)
    run.send_signal(signal.SIGTERM)
    assert run.communicate(timeout=20) == ("step\n", "crenel: stopped here\n")
    assert run.returncode == 143
