"""A standalone cluster from the pip package: a JobManager, TaskManagers and Python worker processes of its own."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyflink
import yaml

from crenel.jobs.local.java import find_java
from crenel.jobs.local.rest import Rest
from crenel.jobs.local.stop import descendants
from tests.support import host
from tests.support.launch import ROOT, TIMEOUT, environment
from tests.support.processes import command

FLINK = Path(pyflink.__file__).parent
SLOTS = 2
PYTHON = ("-pyexec", sys.executable, "-pyclientexec", sys.executable)
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 1000,
    "restart-strategy.fixed-delay.delay": "200 ms",
}
SETTINGS = {
    **RESTARTS,
    # A killed TaskManager is missed in seconds.
    "heartbeat.interval": 1000,
    "heartbeat.timeout": 8000,
    "slot.request.timeout": 120_000,
    "taskmanager.load-balance.mode": "SLOTS",  # a job uses all TaskManagers
}
# Each job loads Python's jar anew, and what Java keeps of the ones before adds up: Flink's 256 MB of classes end after
# ten jobs. So does what each job's channels to Python take of direct memory: Flink's 128 MB end after some thirty jobs.
CLASSES = "-XX:MaxMetaspaceSize=1g"
MEMORY = {
    "jobmanager": ("-Xmx1g", CLASSES),
    "taskmanager": ("-Xmx1536m", CLASSES, "-XX:MaxDirectMemorySize=1100m"),
    "zookeeper": ("-Xmx128m",),
}
"""Options of Java, which Flink's scripts would compute of the settings of its memory."""

TASK_MEMORY = {
    "taskmanager.cpu.cores": SLOTS,
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.task.heap.size": "1408m",
    "taskmanager.memory.task.off-heap.size": "768m",
    "taskmanager.memory.managed.size": "512m",
    "taskmanager.memory.network.min": "192m",
    "taskmanager.memory.network.max": "192m",
    "taskmanager.memory.jvm-metaspace.size": "1g",
    "taskmanager.memory.jvm-overhead.min": "256m",
    "taskmanager.memory.jvm-overhead.max": "256m",
}
"""The settings that Flink's scripts would complete."""

MAINS = {
    "jobmanager": "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
    "taskmanager": "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
    "driver": "org.apache.flink.client.cli.CliFrontend",
    "zookeeper": "org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer",
}

REPORTER = {
    "factory": {"class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"},
    "scope": {"variables": {"excludes": "task_name;task_attempt_id"}},
}
_REPORTERS = 4
"""Processes that show metrics to Prometheus at one time, at most."""

_FATAL = b"Fatal error occurred while executing the TaskManager"
_CLOSING = b"StreamTask.closeAllOperators"
_ENDED_SOURCE = ("checkpoint request for unknown task", "task is closing")

_ENDED = ("FINISHED", "FAILED", "CANCELED")

_STOPS = 3
"""Times that a job is asked to stop with a savepoint, at most."""


class JobClient:
    """Client of the REST interface of a cluster, or of a job's own mini-cluster.

    Parameters
    ----------
    port : of the REST interface, on this machine
    """

    def __init__(self, port: int) -> None:
        self._rest = port

    def stop_job(self, job: str, folder: Path, *, drain: bool = False) -> Path:
        """Stop a job with a savepoint, as ``flink stop`` does, with ``drain`` as ``--drain``; where it lies.

        Flink starts no savepoint at the moment when a bounded source ends, and restarts the job: it is asked again.
        """
        what = {"targetDirectory": str(folder), "formatType": "CANONICAL", "drain": drain}
        for _ in range(_STOPS):
            done = self.checkpoints(job)
            made = self._stop(job, what)
            if "location" in made:
                self.wait(lambda: self.state(job) == "FINISHED", "end of the job that was stopped")
                return Path(made["location"].removeprefix("file:"))
            assert any(text in str(made) for text in _ENDED_SOURCE), made
            self.wait_for_checkpoint(job, done)
        raise AssertionError(f"no savepoint of {_STOPS}")

    def _stop(self, job: str, what: Mapping[str, Any]) -> Any:
        request = self.post(f"/jobs/{job}/stop", what)
        path = f"/jobs/{job}/savepoints/{request['request-id']}"
        self.wait(lambda: bool(self.get(path)["status"]["id"] == "COMPLETED"), "savepoint")
        return self.get(path)["operation"]

    def wait_for_checkpoint(self, job: str, before: int | None = None) -> None:
        """Wait until a job has completed more checkpoints than ``before``, by default those so far: all of it runs."""
        done = self.checkpoints(job) if before is None else before
        self.wait(lambda: self.checkpoints(job) > done, "checkpoint")

    def state(self, job: str) -> str:
        return str(self.get(f"/jobs/{job}")["state"])

    def wait_for_end(self, job: str) -> None:
        """Wait until a job has read its input to the end and published it."""
        self.wait(lambda: self.state(job) in _ENDED, f"the end of job {job}")
        assert self.state(job) == "FINISHED", self.get(f"/jobs/{job}/exceptions")

    def checkpoints(self, job: str) -> int:
        """Return the number of completed checkpoints of a job."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])

    def restored(self, job: str) -> int:
        """Return the number of restores of a job from a checkpoint, since its JobManager has known it."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["restored"])

    def rows_read(self, job: str) -> int:
        """Return the number of rows that a job has admitted or rejected since its start."""
        return Rest(f"http://localhost:{self._rest}", job).rows_read() or 0

    def get(self, path: str) -> Any:
        """Return an answer of the REST interface."""
        with urllib.request.urlopen(f"http://localhost:{self._rest}{path}", timeout=20) as answer:
            return json.load(answer)

    def post(self, path: str, content: Mapping[str, Any]) -> Any:
        """Return an answer of the REST interface to a request with JSON."""
        request = urllib.request.Request(
            f"http://localhost:{self._rest}{path}",
            json.dumps(content).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def wait(self, done: Callable[[], bool], what: str, seconds: float = 240) -> None:
        """Wait for something to come true; fails where it takes too long."""
        until = time.monotonic() + seconds
        while not done():
            self._check()
            assert time.monotonic() < until, f"no {what} after {seconds} s{self._where()}"
            time.sleep(0.2)

    def kill_worker(self) -> bool:
        """``kill -9`` of one Python worker; whether there was one."""
        workers = [pid for pid in descendants(self._parent()) if "beam_boot" in command(pid)]
        if not workers:
            return False
        os.kill(workers[-1], signal.SIGKILL)
        return True

    def _parent(self) -> int:
        """Return the id of the process that starts Python workers."""
        return os.getpid()

    def _check(self) -> None:
        """Fail where something has ended that must not."""

    def _where(self) -> str:
        """Return where the logs are, as the end of a message."""
        return ""


class Cluster(JobClient):
    """A JobManager and TaskManagers of ``SLOTS`` slots each, with everything of theirs in one folder.

    ``flink run`` takes ten seconds to start. Jobs of this fixture go through one that was started once.

    Parameters
    ----------
    taskmanagers : number of TaskManagers at the start

    Attributes
    ----------
    log : folder of the logs
    task_environment : further variables of the environment for TaskManagers that are started
    """

    def __init__(self, folder: Path, taskmanagers: int = 1) -> None:
        self.log = folder / "log"
        self._taskmanagers = taskmanagers
        super().__init__(free_port())
        self.log.mkdir()
        (folder / "tmp").mkdir()
        shutil.copytree(FLINK / "conf", folder / "conf")
        file = folder / "conf" / "config.yaml"
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["jobmanager"]["rpc"]["port"] = free_port()
        content["taskmanager"]["numberOfTaskSlots"] = SLOTS
        content["rest"] |= {"port": self._rest, "bind-address": "localhost"}
        del content["taskmanager"]["memory"]
        self._options = content["env"]["java"]["opts"]["all"].split()
        content["io.tmp.dirs"] = str(folder / "tmp")
        # Each process takes the first port that is free, one that is started after a kill too.
        self.reporters = [free_port() for _ in range(_REPORTERS)]
        content["metrics"] = {"reporter": {"prom": REPORTER | {"port": ",".join(map(str, self.reporters))}}}
        file.write_text(yaml.safe_dump(content | SETTINGS | TASK_MEMORY), encoding="utf-8")
        self.environment = environment() | {
            "JAVA_HOME": str(find_java()),
            "FLINK_HOME": str(FLINK),
            "FLINK_CONF_DIR": str(folder / "conf"),
            "FLINK_LOG_DIR": str(self.log),
            "FLINK_PID_DIR": str(folder),
            **{f"FLINK_{name.upper()}_DIR": str(FLINK / name) for name in ("lib", "opt", "plugins")},
        }
        self.task_environment: dict[str, str] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._earlier = 0  # bytes of the TaskManager's output before it was started
        self._driver: subprocess.Popen[bytes] | None = None
        self._socket = Path(tempfile.mkdtemp()) / "driver"  # short: the system allows 107 bytes

    def start(self) -> None:
        """Start all and what submits jobs, and wait until they know each other."""
        self._begin("jobmanager")
        for _ in range(self._taskmanagers):
            self._begin("taskmanager")
        script = ("run", "-d", *PYTHON, "-py", ROOT / "tests" / "support" / "host.py", self._socket)
        # It is killed, so what it would take away at its exit lies in the cluster's folder.
        temporary = str(self.log.parent / "tmp")
        self._driver = self._spawn("driver", *script, TMPDIR=temporary)
        self.wait(self._is_up, "cluster")

    @property
    def processes(self) -> list[int]:
        """The ids of what was started: JobManager and TaskManagers, and the client that submits jobs."""
        return [process.pid for process in (*self._processes, self._driver) if process is not None]

    def start_taskmanager(self) -> None:
        """Start one more TaskManager and wait until its slots are there."""
        self._begin("taskmanager")
        self.wait(self._is_up, "slots")

    def kill_taskmanager(self) -> None:
        """``kill -9`` of the newest TaskManager's process group: Java and whatever Python it started."""
        process = self._processes.pop()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all and whatever they started, TaskManagers first."""
        if self._driver is not None:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()
        shutil.rmtree(self._socket.parent)
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
            # Flink's scripts also start Java to read the configuration, without JVM_ARGS.
            env=self.environment | {"JDK_JAVA_OPTIONS": os.environ.get("JVM_ARGS", "")} | variables,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def ask(self, program: str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Return the output of ``anonymize`` or ``paced`` when ``flink run -d`` starts it with these arguments."""
        return host.ask(self._socket, program, *arguments, **variables)

    def submit(
        self, configuration: Path, settings: Mapping[str, Any] | None = None, *, rate: int = 0, **variables: str
    ) -> str:
        """Start a job, which must be taken; its id.

        Parameters
        ----------
        configuration : may call ``paced`` in its query
        settings : of Flink, beside those of the configuration
        rate : rows a second that ``paced`` lets through; 0: as many as it can
        """
        what = ("--config", configuration, *with_settings(configuration, settings or {}))
        done = self.ask("paced", *what, CRENEL_TEST_RATE=str(rate), **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return job_id(done)

    def cancel(self, job: str) -> None:
        """Cancel a job, as ``flink cancel`` does, and wait until its slots are free.

        It can take its TaskManager with it: see ``_outlive``.
        """
        request = urllib.request.Request(f"http://localhost:{self._rest}/jobs/{job}?mode=cancel", method="PATCH")
        with urllib.request.urlopen(request, timeout=20):
            pass
        self._outlive(job, "CANCELED", 60)

    def wait_for_failure(self, job: str) -> None:
        """Wait until a job that is not started again has failed, and there are slots for others."""
        self._outlive(job, "FAILED", 240)

    def _outlive(self, job: str, state: str, seconds: float) -> None:
        """Wait until a job has come to its end, and for slots: it may have taken its TaskManager with it.

        A job that ends within a bundle of Python can do so: whatever an operator throws while it is closed is fatal
        there, as what Beam throws of references, and Flink's ArrowSerializer of a channel that is closed. The
        TaskManager gives its slots back before the job has ended, and takes up to ten seconds to end itself.
        """
        until = time.monotonic() + seconds
        while self.state(job) != state:
            assert time.monotonic() < until, f"job {job} is not {state}; logs in {self.log}"
            time.sleep(0.2)
        self.wait(self._is_up, "slots")

    def _parent(self) -> int:
        return self._processes[-1].pid

    def _where(self) -> str:
        return f"; logs in {self.log}"

    def _begin(self, part: str) -> None:
        variables = self.task_environment if part == "taskmanager" else {}
        self._earlier = len(self._output(part))
        self._processes.append(self._spawn(part, "--configDir", self.environment["FLINK_CONF_DIR"], **variables))

    def _spawn(self, part: str, *arguments: str | Path, **variables: str) -> subprocess.Popen[bytes]:
        """Start a part as Flink's scripts do, which start Java seven times to read the configuration first."""
        log = "cli" if part == "driver" else "console"
        logging = f"-Dlog4j.configurationFile=file:{self.environment['FLINK_CONF_DIR']}/log4j-{log}.properties"
        quick = shlex.split(os.environ.get("JVM_ARGS", ""))
        options = (*quick, *MEMORY.get(part, ()), *self._options, f"-Dlog.file={self.log / part}.log", logging)
        java = Path(self.environment["JAVA_HOME"]) / "bin" / "java"
        with (self.log / f"{part}.out").open("ab") as out:
            return subprocess.Popen(
                [java, *options, "-classpath", FLINK / "lib" / "*", MAINS[part], *arguments],
                env=self.environment | variables,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _output(self, part: str) -> bytes:
        file = self.log / f"{part}.out"
        return file.read_bytes() if file.exists() else b""

    def _check(self) -> None:
        """Fail where a process has ended, and start another TaskManager where a job took it along (``_outlive``)."""
        started = [*self._processes, *([] if self._driver is None else [self._driver])]
        ended = [process for process in started if process.poll() is not None]
        if not ended:
            return
        last = self._output("taskmanager")[self._earlier :]
        known = all(process in self._processes[1:] for process in ended) and _FATAL in last and _CLOSING in last
        assert known, f"a process ended; logs in {self.log}"
        for process in ended:
            self._processes.remove(process)
            self._begin("taskmanager")

    def _is_up(self) -> bool:
        try:
            slots = int(self.get("/overview")["slots-total"])
        except (OSError, urllib.error.URLError):
            return False
        return slots == SLOTS * (len(self._processes) - 1) and self._socket.exists()


class AvailableCluster(Cluster):
    """A cluster with high availability by ZooKeeper: a JobManager that is started again knows its jobs."""

    def __init__(self, folder: Path, taskmanagers: int = 1) -> None:
        super().__init__(folder, taskmanagers)
        self._zookeeper: subprocess.Popen[bytes] | None = None
        self._peers, client = folder / "conf" / "zoo.cfg", free_port()
        self._peers.write_text(
            f"tickTime=1000\ndataDir={folder}/zookeeper\nclientPort={client}\nadmin.enableServer=false\n"
            f"server.1=localhost:{free_port()}:{free_port()}\n",
            encoding="utf-8",
        )
        file = folder / "conf" / "config.yaml"
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["high-availability"] = {
            "type": "zookeeper",
            "storageDir": f"file://{folder}/ha",
            # A JobManager that is killed is missed after so many milliseconds.
            "zookeeper": {"quorum": f"localhost:{client}", "client": {"session-timeout": 6000}},
        }
        file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def start(self) -> None:
        """Start ZooKeeper, and then all others."""
        self._zookeeper = self._spawn("zookeeper", "--zkConfigFile", self._peers, "--peerId", "1")
        super().start()

    def stop(self) -> None:
        super().stop()
        if self._zookeeper is not None:
            os.killpg(self._zookeeper.pid, signal.SIGKILL)
            self._zookeeper.wait()

    def kill_jobmanager(self) -> None:
        """``kill -9`` of the JobManager, and another one in its place, which knows the same jobs."""
        jobs = self._jobs()
        process = self._processes.pop(0)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._begin("jobmanager")
        self._processes.insert(0, self._processes.pop())
        self.wait(lambda: self._is_up() and self._jobs() == jobs, "JobManager")

    def _jobs(self) -> set[str]:
        return {job["id"] for job in self.get("/jobs")["jobs"] if job["status"] not in _ENDED}


def restored(savepoint: Path) -> dict[str, str]:
    """Return the setting of Flink that has a job go on from a savepoint, as ``-s`` does."""
    return {"execution.state-recovery.path": str(savepoint)}


def with_settings(configuration: Path, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the argument that adds settings of Flink to those of a configuration."""
    content = yaml.safe_load(configuration.read_text(encoding="utf-8"))
    return "--set", f"flink={json.dumps(content.get('flink', {}) | settings)}"


def job_id(submitted: subprocess.CompletedProcess[str]) -> str:
    """Return the id of the job that ``anonymize`` says it has submitted."""
    return submitted.stdout.split("Job ")[-1].split()[0]


def free_port() -> int:
    """Return a free port below those that Linux gives to outgoing connections, which would take it before its user."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("localhost", 10_000 + secrets.randbelow(22_768)))
            return int(probe.getsockname()[1])
