"""The figures of ``docs/experiments.md``, drawn from fresh runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.castleguard import loss, quality

# Text stays text, and the same figures give the same file.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "crenel", "font.size": 9})


def draw(folder: Path) -> list[Path]:
    """Draw all figures into a folder as SVG; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "castleguard-clusters.svg": _clusters(),
        "castleguard-noise.svg": _noise(),
        "castleguard-quality.svg": _quality(),
    }
    for name, figure in made.items():
        figure.savefig(folder / name, metadata={"Date": None})
    return [folder / name for name in made]


def _clusters() -> Figure:
    figure, panels = _panels(1, 2)
    for panel, declared in zip(panels.flat, (True, False), strict=True):
        for window in loss.WINDOWS:
            means = [
                np.mean([r.released for r in loss.runs(declared=declared, clusters=b, window=window)])
                for b in loss.CLUSTERS
            ]
            panel.plot(loss.CLUSTERS, means, marker="o", markersize=3, label=f"loss_window {window}")
        _label(panel, "declared domain" if declared else "range seen so far", "max_clusters", "mean loss")
    panels[0, 0].set_ylim(bottom=0)
    panels[0, 1].legend(fontsize=7)
    return figure


def _noise() -> Figure:
    figure, panels = _panels(1, 2)
    for panel, declared in zip(panels.flat, (True, False), strict=True):
        for rate in loss.RATES:
            means = [
                np.mean([r.released for r in loss.runs(declared=declared, rate=rate, phi=phi)]) for phi in loss.PHIS
            ]
            panel.semilogx(loss.PHIS, means, marker="o", markersize=3, label=f"sample_rate {rate:g}")
        panel.axhline(float(np.mean(loss.PAPER)), color="black", label="the paper's")
        _label(panel, "declared domain" if declared else "range seen so far", "phi", "mean loss")
    panels[0, 0].set_ylim(bottom=0)
    panels[0, 1].legend(fontsize=7, loc=(0.03, 0.16), ncols=2)
    return figure


def _quality() -> Figure:
    figure, panels = _panels(2, 2)
    for row, name in zip(panels, quality.CLASSIFIERS, strict=True):
        for panel, measure in zip(row, ("accuracy", "auc"), strict=True):
            for rate in quality.RATES:
                means = [np.mean(getattr(quality.scores(name, (rate, phi)), measure)) for phi in quality.PHIS]
                panel.semilogx(quality.PHIS, means, marker="o", markersize=3, label=f"sample_rate {rate:g}")
            for setting, label, style in (("raw", "raw rows", "--"), ("castle", "CASTLE", ":")):
                mean = np.mean(getattr(quality.scores(name, setting), measure))
                panel.axhline(mean, color="black", linestyle=style, label=label)
            blind = quality.commoner_share() if measure == "accuracy" else 0.5
            panel.axhline(blind, color="gray", linewidth=0.8, label="knows nothing")
            _label(panel, name, "phi", "AUC" if measure == "auc" else measure)
            panel.set_ylim(0.45, 0.9)
    panels[0, 0].legend(fontsize=7, ncols=2)
    return figure


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(4 * columns, 3 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, sharey=True, squeeze=False)


def _label(panel: Any, title: str, x: str, y: str) -> None:
    panel.set(title=title, xlabel=x, ylabel=y)
