"""Print the tables of some experiments, or of all; with ``--figures`` draw them too, into ``docs/figures/``.

``--figures`` needs the extra ``experiments``. ``noise`` takes by far the longest: ``--keep FILE`` keeps what was run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.kepsilon import distribution, loss, noise, reasons, speed, stream
from benchmarks.table import Table

_FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"


def main() -> None:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kepsilon", description=__doc__)
    names = ("loss", "distribution", "noise", "speed", "stream", "reasons")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(names)}; all without one")
    parser.add_argument("--figures", action="store_true", help="draw the figures too")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where cells of 'noise' are kept, and found again")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in names]:
        parser.error(f"no such experiment: {', '.join(unknown)}; there are {', '.join(names)}")
    measured = noise.Measured(given.keep)
    tables: dict[str, Callable[[], Iterable[Table]]] = {
        "loss": loss.tables,
        "distribution": distribution.tables,
        "noise": lambda: noise.tables(measured),
        "speed": speed.tables,
        "stream": stream.tables,
        "reasons": reasons.tables,
    }
    for name in given.names or names:
        for table in tables[name]():
            print(table, flush=True)
        if given.figures:
            from benchmarks.kepsilon import figures

            for path in figures.draw(_FIGURES, [name], measured):
                print(path, flush=True)


if __name__ == "__main__":
    main()
