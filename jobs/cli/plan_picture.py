"""Picture of a plan: loss, suppression and delay of all settings against each other, with the Pareto front."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

from crenel.evidence.choice import Figures
from crenel.jobs.cli.plot import PlotError
from crenel.jobs.plan.planned import Plan
from crenel.jobs.plan.point import Point

_FORMATS = (".png", ".svg")
# Okabe and Ito's palette for color-blind readers; shapes carry the same information.
_STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#56B4E9", "v"), ("#E69F00", "P"))
_MINUTE = 60_000


def require_drawable(path: Path) -> None:
    """Raise ``PlotError`` if no picture can be drawn, before the slow steps."""
    if path.suffix.lower() not in _FORMATS:
        raise PlotError(f"--plot: {path.name} has an ending that is not known; one of {', '.join(_FORMATS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotError("--plot: needs matplotlib, which the extra 'plot' brings: pip install 'crenel[plot]'") from None


def draw(path: Path, plan: Plan) -> None:
    """Write the picture; ``path`` ends in .png or .svg, and an existing file is replaced.

    Raises
    ------
    PlotError
        The file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    delay = "delay p99 (minutes)" if plan.timed else "delay p99 (tuples)"
    panels = (("delay", "loss"), ("delay", "suppressed"), ("loss", "suppressed"))
    labels = {"delay": delay, "loss": "mean loss", "suppressed": "suppressed (%)"}
    for axes, (across, up) in zip(figure.subplots(1, 3), panels, strict=True):
        _panel(axes, plan, across, up)
        axes.set(xlabel=labels[across], ylabel=labels[up])
        if across == "delay":
            axes.set_xscale("log")
        if up == "suppressed":
            axes.set_yscale("symlog", linthresh=0.1)
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25, linewidth=0.6)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    wanted = f"k at least {plan.wanted.k}" + (f", l at least {plan.wanted.l}" if plan.wanted.l > 1 else "")
    figure.suptitle(f"{len(plan.figures)} settings on {len(plan.beginning.sample):,} tuples ({wanted} in full color)")
    try:
        figure.savefig(path)
    except OSError as error:
        raise PlotError(f"--plot: {path} cannot be written: {error.strerror}") from None


def _panel(axes: Any, plan: Plan, across: str, up: str) -> None:
    known = {point: figures for point, figures in plan.figures.items() if figures.delay < inf}
    algorithms = sorted({point.algorithm for point in known})
    for algorithm, (color, marker) in zip(algorithms, _STYLES * len(algorithms), strict=False):
        for enough in (False, True):
            points = [p for p in known if p.algorithm == algorithm and plan.wanted.promised(p) == enough]
            x, y = ([_value(plan, known[point], name) for point in points] for name in (across, up))
            label = algorithm if enough else None
            axes.scatter(x, y, s=26, c=color, marker=marker, alpha=0.85 if enough else 0.2, linewidths=0, label=label)
    best = [point for point in known if point in plan.best and plan.wanted.promised(point)]
    _ring(axes, plan, (across, up), best, s=80, edgecolors="black", linewidths=1.1, label="on the front")
    configured = [plan.configured] if plan.configured in known else []
    _ring(axes, plan, (across, up), configured, s=150, marker="s", edgecolors="0.4", label="configured")
    if plan.chosen is not None and plan.chosen.setting in known:
        name = "nearest" if plan.chosen.missed else "recommended"
        _ring(axes, plan, (across, up), [plan.chosen.setting], s=260, marker="*", edgecolors="black", label=name)


def _ring(axes: Any, plan: Plan, names: tuple[str, str], points: list[Point], **style: Any) -> None:
    x, y = ([_value(plan, plan.figures[point], name) for point in points] for name in names)
    axes.scatter(x, y, facecolors="none", zorder=3, **style)


def _value(plan: Plan, figures: Figures, name: str) -> float:
    if name == "suppressed":
        return 100 * figures.suppressed
    if name == "loss":
        return figures.loss
    # A logarithmic axis has no 0.
    return max(figures.delay / _MINUTE, 1e-3) if plan.timed else max(figures.delay, 1.0)
