"""The figures of ``docs/experiments.md``, drawn from the runs that the tables are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.kepsilon import distribution, loss, speed, stream
from benchmarks.kepsilon.core import ALGORITHMS, EPSILONS, KS, Algorithm
from benchmarks.kepsilon.noise import Cell, Measured
from benchmarks.kepsilon.populations import POPULATIONS

# Text stays text, and the same figures give the same file.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "crenel", "font.size": 9})

_SHOWN_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_AIM = {"color": "black", "linewidth": 0.8, "linestyle": ":"}


def draw(folder: Path, names: Sequence[str], measured: Measured) -> list[Path]:
    """Draw the figures of some experiments into a folder as SVG; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, dict[str, Callable[[], Figure]]] = {
        "loss": {"loss": _loss},
        "distribution": {"distribution": _distribution},
        "noise": {
            "error-by-k": lambda: _error_by_k(measured),
            "error-by-epsilon": lambda: _error_by_epsilon(measured),
            "linking": lambda: _linking(measured),
            "suppression": lambda: _suppression(measured),
        },
        "speed": {"speed": _speed},
        "stream": {"stream": _stream},
    }
    paths = []
    for name in names:
        for title, figure in made.get(name, {}).items():
            paths.append(folder / f"kepsilon-{title}.svg")
            figure().savefig(paths[-1], metadata={"Date": None})
    return paths


def _loss() -> Figure:
    figure, panels = _grid(sharey=True)
    for (population, algorithm), panel in _places(panels):
        for extra, label, style in ((False, "k-quasis, without", "--"), (True, "k-quasis, with", "-")):
            means = [loss.loss(population, algorithm, k, extra=extra).original for k in KS]
            panel.semilogx(KS, means, marker="o", markersize=3, linestyle=style, label=label)
        extras = [loss.loss(population, algorithm, k, extra=True).extra for k in KS]
        panel.semilogx(KS, extras, marker="s", markersize=3, label="height or weight, with")
        _label(panel, population, algorithm, "k", "loss")
        panel.set_ylim(0, 1)
    return _finished(figure, panels)


def _distribution() -> Figure:
    figure, panels = _grid(sharey=True)
    styles = {"the whole": "--", "classes": "-", "uniform": ":"}
    for (population, algorithm), panel in _places(panels):
        for epsilon, color in zip(distribution.EPSILONS, ("C0", "C1"), strict=True):
            found = distribution.errors(population, algorithm, epsilon)
            limits = np.geomspace(0.001, 1, 120)
            for way in distribution.WAYS:
                shares = [distribution.below(found[way], limit) for limit in limits]
                label = f"{way}, epsilon {epsilon:g}"
                panel.semilogx(limits * 100, shares, linestyle=styles[way], color=color, label=label)
        _label(panel, population, algorithm, "relative error, %", "share of people")
    return _finished(figure, panels, columns=3)


def _error_by_k(measured: Measured) -> Figure:
    figure, panels = _grid(sharey=True)
    for (population, algorithm), panel in _places(panels):
        for epsilon in _SHOWN_EPSILONS:
            e = EPSILONS.index(epsilon)
            means = [_mean(measured, population, algorithm, k, lambda made, e=e: made.error[e]) for k in KS]  # type: ignore[misc]
            panel.loglog(KS, means, marker="o", markersize=3, label=f"epsilon {epsilon:g}")
        panel.axhline(5, **_AIM)
        _label(panel, population, algorithm, "k", "error, %")
    return _finished(figure, panels)


def _error_by_epsilon(measured: Measured) -> Figure:
    figure, panels = _grid(sharey=True)
    for (population, algorithm), panel in _places(panels):
        for k, color in zip(KS, _COLORS, strict=True):
            made = measured.of(population, algorithm, k)
            panel.loglog(
                EPSILONS, 100 * np.mean(made.error, axis=1), marker="o", markersize=3, color=color, label=f"k = {k}"
            )
            panel.loglog(EPSILONS, 100 * np.array(made.expected), color=color, linewidth=0.7, linestyle=":")
        panel.axhline(5, **_AIM)
        _label(panel, population, algorithm, "epsilon (dotted: equation (8))", "error, %")
    return _finished(figure, panels)


def _linking(measured: Measured) -> Figure:
    figure, panels = _grid(sharey=True)
    for (population, algorithm), panel in _places(panels):
        for k in KS:
            linked = np.mean(measured.of(population, algorithm, k).linked, axis=1)
            panel.loglog(EPSILONS, 100 * linked, marker="o", markersize=3, label=f"k = {k}")
        panel.axhline(5, **_AIM)
        _label(panel, population, algorithm, "epsilon", "linked records, %")
    return _finished(figure, panels)


def _suppression(measured: Measured) -> Figure:
    figure, panels = _grid(sharey=True)
    for (population, algorithm), panel in _places(panels):
        for epsilon in _SHOWN_EPSILONS:
            e = EPSILONS.index(epsilon)
            means = [_mean(measured, population, algorithm, k, lambda made, e=e: made.withheld[e]) for k in KS]  # type: ignore[misc]
            panel.semilogx(KS, means, marker="o", markersize=3, label=f"epsilon {epsilon:g}")
        own = [measured.of(population, algorithm, k).suppressed * 100 for k in KS]
        panel.semilogx(KS, own, color="gray", linewidth=2, label="by the algorithm")
        panel.axhline(2, **_AIM)
        panel.set_yscale("symlog", linthresh=1)
        _label(panel, population, algorithm, "k", "suppressed, %")
    return _finished(figure, panels)


def _speed() -> Figure:
    figure = Figure(figsize=(9, 6), layout="constrained")
    panels = figure.subplots(2, 3, squeeze=False)
    for (population, algorithm), panel in _places(panels):
        found = [speed.seconds(population, algorithm, k) for k in KS]
        panel.semilogx(
            KS, [np.median(each.generalized) for each in found], marker="o", markersize=3, label="generalized"
        )
        panel.semilogx(KS, [np.median(each.noised) for each in found], marker="o", markersize=3, label="noised")
        panel.set_ylim(bottom=0)
        _label(panel, population, algorithm, "k", "seconds")
    return _finished(figure, panels)


def _stream() -> Figure:
    figure = Figure(figsize=(9, 6), layout="constrained")
    panels = figure.subplots(2, 3, sharey="col", squeeze=False)
    fields: tuple[tuple[str, str], ...] = (
        ("error", "error, %"),
        ("linked", "linked records, %"),
        ("gone", "suppressed with confidence, %"),
    )
    for row, method in zip(panels, stream.METHODS, strict=True):
        for panel, (field, name) in zip(row, fields, strict=True):
            for k in stream.KS:
                shares = [100 * getattr(stream.measured()[method, k, epsilon], field) for epsilon in EPSILONS]
                panel.semilogx(EPSILONS, shares, marker="o", markersize=3, label=f"k = {k}")
            panel.set(title=f"Adult as a stream, {method}", xlabel="epsilon", ylabel=name)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=7)
    return figure


_COLORS = tuple(f"C{i}" for i in range(len(KS)))


def _mean(
    measured: Measured, population: str, algorithm: Algorithm, k: int, of: Callable[[Cell], list[float]]
) -> float:
    return 100 * float(np.mean(of(measured.of(population, algorithm, k))))


def _grid(*, sharey: bool) -> tuple[Figure, Any]:
    figure = Figure(figsize=(9, 6), layout="constrained")
    return figure, figure.subplots(2, 3, sharey=sharey, squeeze=False)


def _places(panels: Any) -> list[tuple[tuple[str, Algorithm], Any]]:
    """Each population and algorithm with its panel."""
    return [
        ((population, algorithm), panels[row, column])
        for row, algorithm in enumerate(ALGORITHMS)
        for column, population in enumerate(POPULATIONS)
    ]


def _label(panel: Any, population: str, algorithm: Algorithm, x: str, y: str) -> None:
    name = {"adult": "Adult", "a": "invented list A", "b": "invented list B"}[population]
    panel.set(title=f"{name}, {algorithm}", xlabel=x)
    if population == "adult":
        panel.set_ylabel(y)


def _finished(figure: Figure, panels: Any, columns: int = 7) -> Figure:
    figure.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=columns)
    return figure
