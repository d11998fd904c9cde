"""Whether a process is there. Linux only, as all tests that end processes."""

from __future__ import annotations

from pathlib import Path


def running(process: int) -> bool:
    """Return whether it exists, and does not only wait to be reaped."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def command(process: int) -> str:
    """Return its command line; empty where it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""
