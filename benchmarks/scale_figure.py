"""Print the tables of ``benchmarks.scale`` and draw ``docs/figures/scale.svg`` from the same runs.

``python -m benchmarks.scale_figure`` needs the extra ``experiments``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks import scale

# Text stays text, and the same figures give the same file.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "crenel", "font.size": 9})

_PATH = Path(__file__).resolve().parents[1] / "docs" / "figures" / "scale.svg"
_STYLES = {"subject": "--", "region": "-"}
_COLORS = {delay: f"C{i}" for i, delay in enumerate(scale.DELAYS)}
_SHOWN: dict[str, Callable[[list[scale.Run]], float]] = {
    "mean loss": scale.mean_loss,
    "tuples/s, a core for each shard": scale.rate,
}


def figure() -> Figure:
    """Loss above and throughput below, by number of shards; a column for each algorithm."""
    made = Figure(figsize=(9, 6), layout="constrained")
    panels = made.subplots(2, len(scale.CONTENDERS), sharex=True, sharey="row", squeeze=False)
    for row, (name, value) in zip(panels, _SHOWN.items(), strict=True):
        for contender, panel in zip(scale.CONTENDERS, row, strict=True):
            for delay in scale.DELAYS:
                for by, style in _STYLES.items():
                    values = [
                        value(scale.runs(contender, delay, count, by if count > 1 else "subject"))
                        for count in scale.SHARDS
                    ]
                    panel.plot(
                        scale.SHARDS,
                        values,
                        marker="o",
                        markersize=3,
                        linestyle=style,
                        color=_COLORS[delay],
                        label=f"by {by}, {delay:,} tuples in all",
                    )
            panel.set_xscale("log", base=2)
            panel.set_xticks(scale.SHARDS, map(str, scale.SHARDS))
        row[0].set_ylabel(name)
    for contender, above, below in zip(scale.CONTENDERS, *panels, strict=True):
        above.set_title(f"Adult, {contender.name}")
        below.set_xlabel("shards")
    panels[0, 0].set_ylim(bottom=0)
    panels[1, 0].set_yscale("log")
    made.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=4)
    return made


def main() -> None:
    """Print, and draw."""
    for table in scale.tables():
        print(table, flush=True)
    figure().savefig(_PATH, metadata={"Date": None})
    print(_PATH)


if __name__ == "__main__":
    main()
