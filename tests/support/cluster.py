"""A standalone cluster from the pip package: a JobManager, TaskManagers and Python worker processes of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyflink
import yaml

from jobs.local.java import find_java
from jobs.local.rest import Rest
from tests.support.launch import ROOT, TIMEOUT, environment

FLINK = Path(pyflink.__file__).parent
SLOTS = 2
PYTHON = ("-pyexec", sys.executable, "-pyclientexec", sys.executable)


class Cluster:
    """A JobManager and a TaskManager of ``SLOTS`` slots, with everything of theirs in one folder."""

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.log = folder / "log"
        self._rest = free_port()
        self.log.mkdir()
        (folder / "tmp").mkdir()
        shutil.copytree(FLINK / "conf", folder / "conf")
        file = folder / "conf" / "config.yaml"
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["jobmanager"]["rpc"]["port"] = free_port()
        content["taskmanager"]["numberOfTaskSlots"] = SLOTS
        content["rest"]["port"] = self._rest
        content["io.tmp.dirs"] = str(folder / "tmp")
        file.write_text(yaml.safe_dump(content | dict(settings or {})), encoding="utf-8")
        self.environment = environment() | {
            "JAVA_HOME": str(find_java()),
            "FLINK_HOME": str(FLINK),
            "FLINK_CONF_DIR": str(folder / "conf"),
            "FLINK_LOG_DIR": str(self.log),
            "FLINK_PID_DIR": str(folder),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start both and wait until they know each other."""
        self._begin("jobmanager.sh")
        self.start_taskmanager()

    def start_taskmanager(self) -> None:
        """Start one more TaskManager and wait until its slots are there."""
        self._begin("taskmanager.sh")
        self.wait(lambda: self._slots() == SLOTS, "slots")

    def kill_taskmanager(self) -> None:
        """``kill -9`` of the TaskManager's process group: Java and whatever Python it started."""
        process = self._processes.pop()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_worker(self) -> bool:
        """``kill -9`` of one Python worker of the TaskManager; whether there was one."""
        workers = [pid for pid in _descendants(self._processes[-1].pid) if "beam_boot" in _command(pid)]
        if not workers:
            return False
        os.kill(workers[-1], signal.SIGKILL)
        return True

    def stop(self) -> None:
        """End both and whatever they started, the TaskManager first."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def flink(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """``flink ARGUMENTS``, in the folder of the project."""
        return subprocess.run(
            ["bash", FLINK / "bin" / "flink", *map(str, arguments)],
            env=self.environment | variables,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def submit(
        self,
        configuration: Path,
        *arguments: str | Path,
        parallelism: int = 1,
        script: str = "jobs/anonymize.py",
        **variables: str,
    ) -> str:
        """``flink run -d`` of a job, which must be taken; its id."""
        where = ("-py", script, "--config", configuration)
        done = self.flink("run", "-d", "-p", str(parallelism), *arguments, *PYTHON, *where, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split("Job ")[-1].split()[0]

    def stop_job(self, job: str, folder: Path) -> Path:
        """``flink stop`` with a savepoint; where it lies."""
        done = self.flink("stop", "--type", "canonical", "--savepointPath", folder, job)
        assert done.returncode == 0, done.stdout + done.stderr
        return Path(done.stdout.split("Savepoint completed. Path: ")[1].split()[0].removeprefix("file:"))

    def state(self, job: str) -> str:
        return str(self.get(f"/jobs/{job}")["state"])

    def wait_for_end(self, job: str) -> None:
        """Wait until a job has read its input to the end and published it."""
        self.wait(lambda: self.state(job) in ("FINISHED", "FAILED", "CANCELED"), f"the end of job {job}")
        assert self.state(job) == "FINISHED", self.get(f"/jobs/{job}/exceptions")

    def restarts(self, job: str) -> int:
        """How often a job has been restarted."""
        metrics = self.get(f"/jobs/{job}/metrics?get=numRestarts")
        return int(metrics[0]["value"]) if metrics else 0

    def checkpoints(self, job: str) -> int:
        """How many checkpoints of a job have completed."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])

    def rows_read(self, job: str) -> int:
        """How many rows a job has let in or rejected since it was started."""
        return Rest(self._rest, job).rows_read() or 0

    def get(self, path: str) -> Any:
        """What the REST interface answers."""
        with urllib.request.urlopen(f"http://localhost:{self._rest}{path}", timeout=20) as answer:
            return json.load(answer)

    def wait(self, done: Callable[[], bool], what: str, seconds: float = 240) -> None:
        """Wait for something to come true; fails where it takes too long."""
        until = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until, f"no {what} after {seconds} s; logs in {self.log}"
            time.sleep(0.2)

    def _begin(self, script: str) -> None:
        with (self.log / f"{script}.out").open("ab") as out:
            self._processes.append(
                subprocess.Popen(
                    ["bash", FLINK / "bin" / script, "start-foreground"],
                    env=self.environment,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _slots(self) -> int:
        assert all(process.poll() is None for process in self._processes), f"a process ended; logs in {self.log}"
        try:
            return int(self.get("/overview")["slots-total"])
        except (OSError, urllib.error.URLError):
            return -1


@contextmanager
def running(folder: Path, settings: Mapping[str, Any] | None = None) -> Iterator[Cluster]:
    """A cluster that runs until the end of the block."""
    made = Cluster(folder, settings)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _descendants(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _parent(int(folder.name)) == pid:
            found += [int(folder.name), *_descendants(int(folder.name))]
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return -1


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""
