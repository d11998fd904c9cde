"""Pictures of commands: delta against epsilon, and the settings of a plan."""

from __future__ import annotations

from math import inf, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crenel.anonymity.model.errors import InputError
from crenel.anonymity.noise.budget import log_delta, smallest_epsilon
from crenel.jobs.cli.cli_common import MINUTE

if TYPE_CHECKING:
    from crenel.evidence.plan.choice import Figures
    from crenel.evidence.plan.plan import Plan
    from crenel.evidence.plan.point import Point

_POINTS = 400
_FORMATS = (".png", ".svg")
# Okabe and Ito's palette for color-blind readers; shapes carry the same information.
_STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#56B4E9", "v"), ("#E69F00", "P"))


class PlotError(InputError):
    """Error for a picture that cannot be drawn; the message names the option and a remedy."""


def require_drawable(path: Path) -> None:
    """Raise ``PlotError`` if no picture can be drawn there, before the slow steps."""
    if path.suffix.lower() not in _FORMATS:
        raise PlotError(f"--plot: {path.name} has an ending that is not known; one of {', '.join(_FORMATS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotError("--plot: needs matplotlib: install crenel with its extra 'plot'") from None


def draw_budget(path: Path, k: int, sample_rate: float) -> None:
    """Plot delta over epsilon, from the smallest epsilon on, on a logarithmic scale.

    Parameters
    ----------
    path : ends in .png or .svg; an existing file is replaced

    Raises
    ------
    PlotError
        The path has another ending, the rate is 1, matplotlib is not installed, or the file cannot be written.
    """
    require_drawable(path)
    if sample_rate == 1:
        raise PlotError("--plot: sample_rate 1 has no epsilon, so there is nothing to draw; choose one below 1")
    from matplotlib.figure import Figure

    least = smallest_epsilon(sample_rate)
    epsilons = np.linspace(least, max(3 * least, least + 1), _POINTS)
    powers = [log_delta(k, sample_rate, epsilon) / log(10) for epsilon in epsilons.tolist()]
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    # The plot uses logarithms, because delta may underflow a float.
    axes.plot(epsilons, powers)
    axes.axhline(k * log(sample_rate) / log(10), linestyle="--", color="gray", label="sample_rate^k, the least delta")
    axes.axvline(least, linestyle=":", color="gray", label="-ln(1 - sample_rate), the least epsilon")
    axes.set(xlabel="epsilon", ylabel="delta, as a power of 10", title=f"sample_rate {sample_rate:.12g}, k {k}")
    axes.set_ylim(top=0)
    axes.legend()
    _save(figure, path)


def draw_plan(path: Path, plan: Plan) -> None:
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
    figure.suptitle(f"{len(plan.figures)} settings on {len(plan.sample):,} tuples ({wanted} in full color)")
    _save(figure, path)


def _panel(axes: Any, plan: Plan, across: str, up: str) -> None:
    known = {point: figures for point, figures in plan.figures.items() if figures.delay < inf}
    algorithms = sorted({point.algorithm for point in known})
    for algorithm, (color, marker) in zip(algorithms, _STYLES * len(algorithms), strict=False):
        for enough in (False, True):
            points = [p for p in known if p.algorithm == algorithm and plan.wanted.satisfies_privacy(p) == enough]
            x, y = ([_value(plan, known[point], name) for point in points] for name in (across, up))
            label = algorithm if enough else None
            axes.scatter(x, y, s=26, c=color, marker=marker, alpha=0.85 if enough else 0.2, linewidths=0, label=label)
    best = [point for point in known if point in plan.best and plan.wanted.satisfies_privacy(point)]
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
    return max(figures.delay / MINUTE, 1e-3) if plan.timed else max(figures.delay, 1.0)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path)
    except OSError as error:
        raise PlotError(f"--plot: {path} cannot be written: {error.strerror}") from None
