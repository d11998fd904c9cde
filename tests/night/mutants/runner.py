"""Runs the tests on a copy of the tree, as it is or with a mutant in it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock

from crenel.anonymity.compiled.folders import cached
from tests.night.mutants.recorder import PLAN
from tests.night.mutants.rules import Mutant

KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"

_COMPILING, _STARTING = 150.0, 20.0
"""Seconds of the processor that a mutant may take beyond the tests: to compile what it changes, and to start."""

_SLOWER = 3.0
"""How many times the seconds of the unchanged code a test may take."""

_IDLE = 120.0
"""Seconds after which processes that use no processor are taken for blocked."""

_POLL = 0.2
_NOT_COPIED = (".git", ".venv", ".hypothesis", "__pycache__", ".*_cache", "build", "dist", "*.egg-info")


class StoppingError(Exception):
    """The runner is stopping, and starts nothing more."""


@dataclass(frozen=True)
class Result:
    """Result of a mutant.

    Attributes
    ----------
    outcome : ``KILLED``, ``SURVIVED`` or ``TIMEOUT``
    test : the test that failed or did not end; empty where none had begun
    reason : the first line of the error
    tests : how many tests ended
    seconds : wall-clock time
    """

    outcome: str
    test: str = ""
    reason: str = ""
    tests: int = 0
    seconds: float = 0.0


class Runner:
    """A copy of a tree, from which each mutant gets a copy of its own; all are below one temporary folder."""

    def __init__(self) -> None:
        self._folder = Path(mkdtemp(prefix="crenel-mutants-"))
        self._base = self._folder / "base"
        self._shared = self._folder / "shared"
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()
        self._is_stopping = False

    def stop(self) -> None:
        """End all tests, and let none begin."""
        with self._lock:
            self._is_stopping = True
            for process in self._running:
                _kill(process)

    def remove(self) -> None:
        """Remove all copies, once no test runs."""
        for _ in range(20):  # what a test has started may write for a moment longer
            shutil.rmtree(self._folder, ignore_errors=True)
            if not self._folder.exists():
                return
            time.sleep(_POLL)

    def baseline(self, root: Path, files: Sequence[str], jobs: int) -> tuple[dict[str, float], list[str]]:
        """Copy a tree and run the tests of files there; return the seconds of each that passes, and those that fail."""
        shutil.copytree(root, self._base / "tree", symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        self._shared = root.parent / "shared"
        self._furnish(self._base, whole_cache=True)
        code, record, output = self._pytest(self._base, None, [*files, "-n", str(jobs), "--no-loadscope-reorder"], None)
        if code not in (0, 1):
            raise RuntimeError(f"the tests do not run without a mutant:\n{output[-3000:]}")
        shutil.rmtree(self._base / "tree" / ".hypothesis", ignore_errors=True)
        seconds = {test: taken for test, outcome, taken, _ in record if outcome == "passed"}
        return seconds, [test for test, outcome, *_ in record if outcome == "failed"]

    def run(self, mutant: Mutant, plan: Sequence[str], seconds: Mapping[str, float]) -> Result:
        """Run planned tests on a copy with the mutant, until one fails."""
        if not plan:
            return Result(SURVIVED)
        allowance = _STARTING + (_COMPILING if mutant.compiled else 0.0)
        limits = {test: _SLOWER * seconds[test] + allowance for test in plan}
        total = _SLOWER * sum(seconds[test] for test in plan) + allowance + _STARTING
        started_at = time.monotonic()
        copy = Path(mkdtemp(dir=self._folder))
        try:
            # Bytecode comes along, and none is stale: the copies keep the times of the files.
            shutil.copytree(self._base / "tree", copy / "tree", symlinks=True)
            changed = copy / "tree" / mutant.file
            changed.write_bytes(mutant.applied(changed.read_bytes()))
            for stale in (changed.parent / "__pycache__").glob(f"{changed.stem}.*.pyc"):
                stale.unlink()
            self._furnish(copy, whole_cache=False)
            files = list(dict.fromkeys(test.partition("::")[0] for test in plan))
            code, record, _ = self._pytest(copy, limits, [*files, "-x"], total)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        taken = time.monotonic() - started_at
        ended = sum(outcome != "started" for _, outcome, *_ in record)
        test, outcome, _, error = record[-1] if record else ("", "", 0.0, "")
        if code == 0:
            return Result(SURVIVED, tests=ended, seconds=taken)
        if code is None or -code in (signal.SIGPROF, signal.SIGXCPU):
            return Result(TIMEOUT, test, "no progress" if code is None else "processor time", ended, taken)
        if outcome == "passed":
            test = ""  # it failed between tests, or found none
        return Result(KILLED, test, error or f"pytest ended with {code}", ended, taken)

    def _furnish(self, copy: Path, *, whole_cache: bool) -> None:
        """Link what tests look for beside the tree: data sets, and a cache with all that is compiled.

        Compiled code is found by content, so what a mutant leaves as it is comes from the user's cache, and what it
        compiles stays in its own. The cache of the unchanged tree is the user's (``whole_cache``).
        """
        if self._shared.exists():
            (copy / "shared").symlink_to(self._shared.resolve())
        cache = copy / "cache" / "crenel"
        cache.mkdir(mode=0o700, parents=True)
        compiled = cached("compiled")
        for kept in [] if compiled is None else compiled.parent.iterdir():
            if whole_cache or kept != compiled:
                (cache / kept.name).symlink_to(kept)
            else:
                (cache / kept.name).mkdir()
                for module in kept.iterdir():
                    (cache / kept.name / module.name).symlink_to(module)

    def _pytest(
        self, folder: Path, limits: Mapping[str, float] | None, options: Sequence[str], seconds: float | None
    ) -> tuple[int | None, list[tuple[str, str, float, str]], str]:
        """Run pytest in a folder with a copy; return its exit code (None: blocked), its record and its output."""
        tree, record, plan, output = (folder / name for name in ("tree", "record", "plan", "output"))
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        record.touch()
        plan.write_text(json.dumps({"record": str(record), "limits": limits}), encoding="utf-8")
        names = {"NUMBA_CACHE_DIR", "CRENEL_COMPILED", "PYTEST_ADDOPTS"}
        env = {name: value for name, value in os.environ.items() if name not in names}
        env |= {"PYTHONPATH": str(tree), "TMPDIR": str(temporary), "XDG_CACHE_HOME": str(folder / "cache")}
        env |= {"PYTHONHASHSEED": "0", PLAN: str(plan)}
        # Examples are those of the gate and always the same; a failure is not made smaller.
        always = ["-p", "tests.night.mutants.recorder", "-p", "no:cacheprovider", "-q", "--tb=line", "-m", "not flink"]
        always += ["--hypothesis-seed=0", "--hypothesis-profile=mutants", f"--basetemp={temporary}/pytest"]
        with output.open("wb") as out, self._lock:
            if self._is_stopping:
                raise StoppingError
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *always, *options],
                cwd=tree,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
            if seconds is not None:
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (int(seconds), int(seconds) + 10))
        try:
            is_blocked = not _wait(process)
        finally:
            if process.poll() is None:  # Ctrl-C, in the main thread
                _kill(process)
                process.wait()
            with self._lock:
                self._running.remove(process)
        if self._is_stopping:
            raise StoppingError
        lines = [tuple(json.loads(line)) for line in record.read_text(encoding="utf-8").splitlines()]
        code = None if is_blocked else process.returncode
        return code, lines, output.read_text(encoding="utf-8", errors="replace")


def _wait(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of a process; False: it and all that it started were blocked, and have been killed."""
    used, since = -1.0, time.monotonic()
    while process.poll() is None:
        time.sleep(_POLL)
        now = _processor_time(process.pid)
        if abs(now - used) > 0.1:
            used, since = now, time.monotonic()
        elif time.monotonic() - since > _IDLE:
            _kill(process)
            process.wait()
            return False
    return True


def _processor_time(session: int) -> float:
    """Return the seconds of the processor that the processes of a session have used so far."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
