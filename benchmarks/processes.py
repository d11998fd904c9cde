"""What processes hold and have run for, as the kernel tells it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def resident(process: int | str = "self") -> int:
    """Resident bytes of a process; 0 where it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def below(process: int) -> list[int]:
    """All processes that stem from a process and run, Java and workers among them."""
    found, looked_at = [process], 0
    while looked_at < len(found):
        for children in Path(f"/proc/{found[looked_at]}/task").glob("*/children"):
            with suppress(OSError):
                found.extend(map(int, children.read_text().split()))
        looked_at += 1
    return found[1:]


def core_seconds() -> float:
    """What this process and those below it have run for so far, with those that have ended."""
    ticks = 0
    for process in [os.getpid(), *below(os.getpid())]:
        with suppress(OSError):  # it has ended
            ticks += sum(map(int, _after_the_name(Path(f"/proc/{process}/stat"))[11:15]))
    return ticks / _TICK


def threads(process: int) -> list[tuple[str, float]]:
    """Name of each thread of a process, and the seconds that it has run for so far."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        name = (task / "comm").read_text().strip()
        found.append((name, sum(map(int, _after_the_name(task / "stat")[11:13])) / _TICK))
    return found


def _after_the_name(stat: Path) -> list[str]:
    return stat.read_text().rpartition(")")[2].split()
