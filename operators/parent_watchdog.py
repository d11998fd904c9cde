"""Watchdog that ends a Python worker when its parent Java process is gone.

If only the TaskManager is killed, its workers remain for minutes: their threads wait for state that nobody will send.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread

_WORKER = "pyflink.fn_execution.beam.beam_boot"
_PROCESSES = Path("/proc")
_EVERY = 1.0 if (_PROCESSES / "self" / "stat").exists() else 5.0  # seconds; without /proc each check starts a process

_lock = Lock()
_watching = False


def end_with_java() -> None:
    """End this process within seconds of its parent Java process, if it is a separate worker.

    In a local run Python works in threads of the command itself, which handles its own end. Every function in a worker
    should call this; only the first call starts the watch.
    """
    global _watching
    if getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None) != _WORKER:
        return
    with _lock:
        begun, _watching = _watching, True
    if not begun:
        shell = os.getppid()
        Thread(target=_watch, args=(shell, _parent(shell)), name="crenel-orphan", daemon=True).start()


def _watch(shell: int, java: int | None) -> None:
    # The shell that runs this process, and the Java that runs the shell: a dead parent is replaced by another process.
    while os.getppid() == shell and _parent(shell) in (java, None):
        time.sleep(_EVERY)
    os._exit(1)  # no process is left to receive an error


def _parent(process: int) -> int | None:
    """Return the parent of a process; None where it is currently unknown."""
    with suppress(OSError, ValueError, IndexError, subprocess.SubprocessError):
        if (_PROCESSES / "self" / "stat").exists():
            # The name, which may contain anything, is followed by the state and the parent.
            stat = (_PROCESSES / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
            return int(stat.rpartition(")")[2].split()[1])
        told = subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], capture_output=True, timeout=5, check=True)
        return int(told.stdout)
    return None
