"""The figures of attacks in ``docs/experiments.md``, drawn from the runs that the tables are of, with these.

``python -m benchmarks.attack_figure`` makes all; names after it choose streams.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.attack import TITLES, Measured, measured, tables, watchers
from crenel.evidence.attack.replays import TOLD
from crenel.evidence.attack.result import ALL, Attack

# Text stays text, and the same figures give the same file.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "crenel", "font.size": 9})

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "figures"
_MARKERS = "osD^vPX*"
_FIRST = "re-identification at 1"


def main() -> None:
    """Print the tables and draw the figures of the streams that are named, or of all."""
    names = tuple(sys.argv[1:]) or tuple(TITLES)
    if unknown := set(names) - TITLES.keys():
        sys.exit(f"no such stream: {', '.join(sorted(unknown))}; there are {', '.join(TITLES)}")
    for table in tables(names):
        print(table, flush=True)
    for name in names:
        path = FOLDER / f"attack-{name}.svg"
        _drawn(TITLES[name], measured(name)).savefig(path, metadata={"Date": None})
        print(path)


def _drawn(name: str, runs: list[Measured]) -> Figure:
    """Re-identification by what is known, and disclosure beside guessing and a control group."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    known = [
        *dict.fromkeys(a.knows for run in runs for a in run.found.attacks if a.name == _FIRST and " of " in a.knows)
    ]
    known += [ALL, *reversed(watchers(runs)), TOLD]
    for i, run in enumerate(runs):
        found = [(j, run.attack(_FIRST, of)) for j, of in enumerate(known)]
        _points(left, [(j + 0.09 * (i - len(runs) / 2), of) for j, of in found if of is not None], f"C{i}", run.name)
    for k in dict.fromkeys(run.k for run in runs):
        left.axhline(1 / k, color="black", linewidth=0.8, linestyle=":")
        left.annotate(f"1 / k, k {k}", (-0.6, 1 / k), fontsize=7, va="bottom", ha="left")
    left.set_xticks(range(len(known)), map(_label, known))
    left.set_ylabel("re-identified at 1")
    most = max(attack.high for run in runs for attack in run.found.attacks if attack.name == _FIRST)
    left.set_ylim(0, min(1.2 * most, 1))
    left.set_yscale("function", functions=(lambda x: abs(x) ** 0.5, lambda x: x**2))
    left.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=0))
    left.legend(fontsize=7, frameon=False, loc="upper left")
    for i, run in enumerate(runs):
        among = next(a for a in run.found.attacks if a.name.startswith("disclosure of"))
        beside = next(a for a in run.found.attacks if a.name.endswith("beside control"))
        _points(right, [(i, among)], f"C{i}", "")
        for baseline, marker, label in (
            (among.baseline, "_", "the commonest value"),
            (beside.baseline, "x", "control group"),
        ):
            right.plot([i], [baseline], marker, color="black", markersize=8, label=label if i == 0 else None)
    right.set_xticks(range(len(runs)), [run.name for run in runs], rotation=40, ha="right")
    right.set_ylabel("disclosed")
    right.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=0))
    right.legend(fontsize=7, frameon=False)
    figure.suptitle(name)
    return figure


def _label(knows: str) -> str:
    """What is known, in two lines or three."""
    text = "told the\nrelease" if knows == TOLD else knows.removeprefix(f"{ALL}, ").replace(ALL, "all of them")
    for words in ("of them", "within", "order"):
        text = text.replace(f" {words}", f"\n{words}")
    return text.replace("within ", "within\n")


def _points(panel: Any, found: list[tuple[float, Attack]], color: str, label: str) -> None:
    success = [attack.success for _, attack in found]
    error = [
        [max(attack.success - attack.low, 0) for _, attack in found],
        [max(attack.high - attack.success, 0) for _, attack in found],
    ]
    places = [place for place, _ in found]
    panel.errorbar(
        places,
        success,
        error,
        fmt=_MARKERS[int(color[1:])],
        markersize=4,
        color=color,
        label=label,
        capsize=2,
        linewidth=1,
    )


if __name__ == "__main__":
    main()
