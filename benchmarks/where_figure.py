"""The picture of ``benchmarks.where``: ``docs/figures/where.svg``. Needs the extra ``experiments``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

# Text stays text, and the same figures give the same file.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "crenel", "font.size": 9})

_PATH = Path(__file__).resolve().parents[1] / "docs" / "figures" / "where.svg"
_COLORS = {"Java": "C0", "Python": "C1"}


def draw(jobs: Mapping[str, Mapping[str, float]], path: Path = _PATH) -> None:
    """One panel a job: microseconds of a core a row, by stage, largest first."""
    made = Figure(figsize=(4.5 * len(jobs), 5), layout="constrained")
    panels = made.subplots(1, len(jobs), squeeze=False)[0]
    for (name, parts), panel in zip(jobs.items(), panels, strict=True):
        shown = sorted(parts.items(), key=lambda part: part[1])
        colors = [_COLORS[stage.partition(":")[0]] for stage, _ in shown]
        bars = panel.barh([stage for stage, _ in shown], [amount for _, amount in shown], color=colors)
        panel.bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
        panel.margins(x=0.15)
        panel.set_title(f"{name}: {sum(parts.values()):.1f} in all")
        panel.set_xlabel("microseconds of a core a row")
    made.savefig(path, metadata={"Date": None})
