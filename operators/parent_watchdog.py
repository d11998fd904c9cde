"""A Python worker ends when the Java that has started it is gone.

Where a TaskManager is killed alone, its workers wait for it for minutes: threads of theirs wait for an answer about
state that nobody will give.
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
_EVERY = 1.0 if (_PROCESSES / "self" / "stat").exists() else 5.0  # seconds; without /proc a look starts a process

_lock = Lock()
_watching = False


def end_with_java() -> None:
    """Have this process end within seconds of the Java that has started it, if it is a worker's own.

    In a local run Python works in threads of the command itself, which looks after its own end. To be called by every
    function that a worker runs; watches once.
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
    # The shell that runs this process, and the Java that runs the shell: whoever is gone is another then.
    while os.getppid() == shell and _parent(shell) in (java, None):
        time.sleep(_EVERY)
    os._exit(1)  # nobody is left who could be told why


def _parent(process: int) -> int | None:
    """The parent of a process; None where it cannot be told now."""
    with suppress(OSError, ValueError, IndexError, subprocess.SubprocessError):
        if (_PROCESSES / "self" / "stat").exists():
            # Behind the name, which may hold anything, stand the state and the parent.
            stat = (_PROCESSES / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
            return int(stat.rpartition(")")[2].split()[1])
        told = subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], capture_output=True, timeout=5, check=True)
        return int(told.stdout)
    return None
