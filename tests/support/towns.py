"""Towns by the side of the country, as streams of whole jobs have them, and their hierarchy as a file."""

from __future__ import annotations

from pathlib import Path

TOWNS = {f"{side}-{i}": side for side in ("north", "south", "east") for i in range(4)}
"""The side by the town."""


def write_towns(folder: Path) -> None:
    """Write their hierarchy as ``towns.csv``."""
    lines = [f"{leaf};{side};all" for leaf, side in TOWNS.items()]
    (folder / "towns.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
