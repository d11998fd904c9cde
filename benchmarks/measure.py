"""Measurements that benchmarks and experiments share: replays, processes, tables and figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.adult import Stream
from crenel.anonymity.algorithm import Algorithm, Counters, ShardContext
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.privacy import Privacy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLOCK = 2000
"""Tuples of a block, where a benchmark names no other number."""

_TICK = os.sysconf("SC_CLK_TCK")


class Table:
    """A table in Markdown: a title, a header and rows."""

    def __init__(self, title: str, header: list[str]) -> None:
        self.title = title
        self._header = header
        self._rows: list[list[str]] = []

    def add(self, *cells: object) -> None:
        """Add a row."""
        self._rows.append([str(cell) for cell in cells])

    def __str__(self) -> str:
        rows = [self._header, ["---"] * len(self._header), *self._rows]
        return f"### {self.title}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def update(file: Path, table: Table) -> bool:
    """Replace the table of the same title in a Markdown file, and return whether there is one.

    All other text stays, such as the comments by which the documentation includes a table.
    """
    heading, *_, rows = str(table).split("\n\n")
    text = file.read_text(encoding="utf-8")
    begin = f"\n{text}".find(f"\n{heading}\n")
    first = text.find("\n|", begin + len(heading)) + 1
    if begin < 0 or not first or "\n#" in text[begin + len(heading) : first]:
        return False
    stop = first
    while text.startswith("|", stop):
        stop = text.find("\n", stop) + 1 or len(text)
    file.write_text(text[:first] + rows + text[stop:], encoding="utf-8")
    return True


def save_figure(draw: Callable[[], Figure], path: Path, **metadata: str | None) -> None:
    """Write a figure as SVG: text stays text, and the same figure gives the same bytes.

    Parameters
    ----------
    draw : makes the figure in this style; needs matplotlib
    metadata : entries of the file, by matplotlib's names
    """
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "crenel", "font.size": 9}):
        draw().savefig(path, metadata={"Date": None, **metadata})


@dataclass(frozen=True)
class Replay:
    """Outcome of one shard that has processed a whole stream.

    Attributes
    ----------
    releases : of each step
    counters : of the shard at the end
    seconds : wall-clock time of all steps
    """

    releases: list[Releases]
    counters: Counters
    seconds: float

    @property
    def loss(self) -> float:
        """Mean loss of the released tuples, in [0, 1]."""
        return self.counters.loss_sum / max(self.counters.released, 1)

    @property
    def suppressed(self) -> float:
        """Share of the admitted tuples that were suppressed."""
        return sum(self.counters.suppressed.values()) / max(self.counters.tuples_in, 1)


def replay(tuples: Stream, algorithm: Algorithm, privacy: Privacy, seed: int = 0) -> Replay:
    """Push a stream through one shard, to the end; the shard records no changes of its state."""
    context = ShardContext(tuples.policy, privacy, algorithm, tuples.members.schema, remembers=False)
    shard, blocks = algorithm.new(context, 0, bytes([seed]) * 32), tuples.blocks(BLOCK)
    start = time.perf_counter()
    releases = [shard.push(block).releases for block in blocks]
    releases.append(shard.finish().releases)
    return Replay(releases, shard.counters, time.perf_counter() - start)


def resident(process: int | str = "self") -> int:
    """Return the resident bytes of a process; 0 where it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def descendants(process: int) -> list[int]:
    """Return all running descendants of a process, Java and workers among them."""
    found, visited = [process], 0
    while visited < len(found):
        for children in Path(f"/proc/{found[visited]}/task").glob("*/children"):
            with suppress(OSError):
                found.extend(map(int, children.read_text().split()))
        visited += 1
    return found[1:]


def core_seconds() -> float:
    """Return the processor time of this process and its descendants so far, in seconds, ended ones included."""
    ticks = 0
    for process in [os.getpid(), *descendants(os.getpid())]:
        with suppress(OSError):  # it has ended
            ticks += sum(map(int, _fields(Path(f"/proc/{process}/stat"))[11:15]))
    return ticks / _TICK


def threads(process: int) -> list[tuple[str, float]]:
    """Return the name of each thread of a process, and its processor time so far in seconds."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        name = (task / "comm").read_text().strip()
        found.append((name, sum(map(int, _fields(task / "stat")[11:13])) / _TICK))
    return found


def _fields(stat: Path) -> list[str]:
    """Return the fields of a file ``stat`` after the name, which may contain blanks."""
    return stat.read_text().rpartition(")")[2].split()
