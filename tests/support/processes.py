"""Whether a process runs, and with which command line."""

from __future__ import annotations

from contextlib import suppress

import psutil


def running(process: int) -> bool:
    """Return whether a process exists and has not ended; one that has ended may wait for its parent."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def command(process: int) -> str:
    """Return the command line of a process; empty where it has ended."""
    with suppress(psutil.Error):
        return " ".join(psutil.Process(process).cmdline())
    return ""
