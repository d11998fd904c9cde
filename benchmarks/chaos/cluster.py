"""A standalone cluster that outlives all of its processes, with a disk and a clock of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from crenel.jobs.local.stop import descendants
from tests.support.cluster import AvailableCluster
from tests.support.processes import command

_DISK = "96m"
"""Size of the disk of checkpoints, which must hold those of one job and be filled in no time."""

_FAKETIME = ("libfaketimeMT.so.1", "libfaketime.so.1")
_PATIENCE = 300.0  # seconds
_TO_END = 20.0  # seconds in which a worker is to end when its Java is gone
_TRIES = 5


class NotHereError(RuntimeError):
    """Lack of a tool on this machine for one kind of disturbance."""


class Survivor(AvailableCluster):
    """A cluster of the tests whose disk and clock can fail too.

    Attributes
    ----------
    checkpoints_in : folder of checkpoints, on a small disk where this machine lets us mount one
    python : what runs Python workers: Python, by the machine's clock
    orphaned : seconds for which a Python worker outlived its Java, at most
    stayed : workers that would not end, and were killed, as a supervisor does
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.orphaned = 0.0
        self.stayed = 0
        # Under a clock that is not the machine's, Python cannot sleep.
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        self.python.chmod(0o755)
        self._clock = folder / "clock"
        self._clock.write_text("+0\n", encoding="ascii")
        self.checkpoints_in = folder / "disk"
        self.checkpoints_in.mkdir()
        self._mounted = _mounted(self.checkpoints_in)
        file = folder / "conf" / "config.yaml"
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["execution.checkpointing.dir"] = f"file://{self.checkpoints_in}"
        file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def start(self) -> None:
        """Start all; the Java of TaskManagers goes by a clock of its own."""
        faketime = next((path for name in _FAKETIME for path in Path("/usr/lib").glob(f"*/faketime/{name}")), None)
        if faketime is not None:
            self.task_environment = {
                "LD_PRELOAD": str(faketime),
                "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                "FAKETIME_CACHE_DURATION": "1",
                # Monotonic clocks stay unchanged. Without the second setting, timed waits of Java would not wait.
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            }
        super().start()

    def stop(self) -> None:
        super().stop()
        if self._mounted:
            subprocess.run(["umount", "--lazy", self.checkpoints_in], check=False)

    def until(self, done: Callable[[], bool], what: str, seconds: float = _PATIENCE) -> None:
        """Wait for something to come true while parts of the cluster may be down.

        As a supervisor would, start a TaskManager again that has ended by itself: now and then, one does not come up
        under a clock that is not the machine's.
        """
        end = time.monotonic() + seconds
        while True:
            if self._processes and self._processes[-1].poll() is not None:
                self._processes.pop()
                self._begin("taskmanager")
            with suppress(OSError, KeyError, IndexError):
                if done():
                    return
            if time.monotonic() > end:
                raise TimeoutError(f"no {what} after {seconds:.0f} s; logs in {self.log}")
            time.sleep(0.1)

    def completed_since(self, job: str, since: float) -> bool:
        """Return whether a checkpoint that began after ``since`` (seconds of the epoch) has completed."""
        latest = self.get(f"/jobs/{job}/checkpoints")["latest"]["completed"]
        return latest is not None and latest["trigger_timestamp"] > since * 1000

    def is_running(self, job: str) -> bool:
        """Return whether all of a job's tasks run."""
        tasks = [vertex["status"] for vertex in self.get(f"/jobs/{job}")["vertices"]]
        return bool(tasks) and all(task in ("RUNNING", "FINISHED") for task in tasks)

    def drain(self, job: str, folder: Path) -> None:
        """Drain a job; again where that is refused, as it has just been started again."""
        for _ in range(_TRIES):
            with suppress(AssertionError):
                self.stop_job(job, folder, drain=True)
                return
            now = time.time()
            self.until(lambda since=now: self.completed_since(job, since), "checkpoint")  # type: ignore[misc]
        raise TimeoutError(f"the job is not drained after {_TRIES} tries; logs in {self.log}")

    def kill_java(self) -> None:
        """``kill -9`` of the TaskManager's Java alone; its Python workers are left to themselves."""
        process = self._processes.pop()
        javas = [pid for pid in [process.pid, *descendants(process.pid)] if "TaskManagerRunner" in command(pid)]
        workers = [pid for pid in descendants(process.pid) if "beam_boot" in command(pid)]
        for pid in javas:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        self.start_taskmanager()
        since = time.monotonic()
        try:
            self.until(lambda: not any("beam_boot" in command(pid) for pid in workers), "end of workers", _TO_END)
            self.orphaned = max(self.orphaned, time.monotonic() - since)
        except TimeoutError:
            left = [pid for pid in workers if "beam_boot" in command(pid)]
            self.stayed += len(left)
            for pid in left:
                os.kill(pid, signal.SIGKILL)

    def fill_disk(self, job: str) -> None:
        """Leave no byte for checkpoints until one has failed, and some time longer."""
        if not self._mounted:
            raise NotHereError("no disk of a size of its own can be mounted here")
        before = self._failed(job)
        filler = self.checkpoints_in / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"\0" * (1 << 20)):
                pass
        try:
            self.until(lambda: self._failed(job) > before, "failed checkpoint", 60)
            time.sleep(2)
        finally:
            filler.unlink()

    def _failed(self, job: str) -> int:
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["failed"])

    def set_clock(self, seconds: int) -> None:
        """Have the clock of the TaskManager's Java jump: so far ahead of the machine's, or behind it."""
        if not self.task_environment:
            raise NotHereError("libfaketime is not installed (on Debian: apt install faketime)")
        self._clock.write_text(f"{seconds:+d}\n", encoding="ascii")


def _mounted(folder: Path) -> bool:
    mount: list[Any] = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", folder]
    return bool(shutil.which("mount")) and subprocess.run(mount, capture_output=True, check=False).returncode == 0
