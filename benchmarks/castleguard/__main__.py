"""Print the tables (``loss``, ``quality``), or draw ``figures`` from them into ``docs/figures/``; all without a name.

``quality`` and ``figures`` need the extra ``experiments``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.castleguard import loss, quality

_FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
_NAMES = ("loss", "quality", "figures")


def main() -> None:
    """Do what the command line names."""
    names = sys.argv[1:] or list(_NAMES)
    if unknown := [name for name in names if name not in _NAMES]:
        sys.exit(f"no such experiment: {', '.join(unknown)}; there are {', '.join(_NAMES)}")
    for name in names:
        if name == "figures":
            from benchmarks.castleguard import figures

            for path in figures.draw(_FIGURES):
                print(path)
            continue
        for table in loss.tables() if name == "loss" else quality.tables():
            print(table, flush=True)


if __name__ == "__main__":
    main()
