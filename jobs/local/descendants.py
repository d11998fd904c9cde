"""Descendant processes of a process."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")


def descendants(process: int | None = None) -> list[int]:
    """Return the living descendants of a process (default: of this one), parents before children."""
    children: dict[int, list[int]] = defaultdict(list)
    for child, parent in _listed():
        children[parent].append(child)
    found = [os.getpid() if process is None else process]
    for parent in found:
        found += children[parent]
    return found[1:]


def _listed() -> Iterator[tuple[int, int]]:
    """Yield number and parent of each process of this machine."""
    if not (_PROCESSES / "self" / "stat").exists():
        yield from _listed_by_ps()
        return
    for folder in _PROCESSES.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it has ended
                # State and parent follow the name, which may contain anything.
                state, parent = (
                    (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
                )
                if state not in "ZX":
                    yield int(folder.name), int(parent)


def _listed_by_ps() -> Iterator[tuple[int, int]]:
    with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,stat="], stdout=subprocess.PIPE, text=True) as asked:
        for line in asked.communicate()[0].splitlines():
            process, parent, state = line.split()[:3]
            if int(process) != asked.pid and not state.startswith("Z"):
                yield int(process), int(parent)
