"""Figures of results as matplotlib objects, without the state of pyplot."""

from __future__ import annotations

from math import inf, log
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from crenel.anonymity.model.durations import MINUTE
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.noise.budget import log_delta, smallest_epsilon

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set, Sized

    from matplotlib.figure import Figure

    from crenel.evidence.plan.choice import Chosen, Figures, Wanted
    from crenel.evidence.plan.point import Point

NEEDED = "needs matplotlib: install crenel with its extra 'plot'"

_POINTS = 400
# Okabe and Ito's palette for color-blind readers; shapes carry the same information.
_STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#56B4E9", "v"), ("#E69F00", "P"))


class DrawnAttack(Protocol):
    """The attributes of ``crenel.evidence.attack.result.Attack`` that a figure shows."""

    @property
    def name(self) -> str: ...
    @property
    def knows(self) -> str: ...
    @property
    def success(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def baseline(self) -> float | None: ...


class DrawnPlan(Protocol):
    """The attributes of ``crenel.evidence.plan.plan.Plan`` that a figure shows."""

    @property
    def sample(self) -> Sized: ...
    @property
    def configured(self) -> Point: ...
    @property
    def wanted(self) -> Wanted: ...
    @property
    def figures(self) -> Mapping[Point, Figures]: ...
    @property
    def best(self) -> Set[Point]: ...
    @property
    def chosen(self) -> Chosen[Point] | None: ...
    @property
    def timed(self) -> bool: ...


def _figure(width: float, height: float) -> Figure:
    """Return an empty figure; sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ModuleNotFoundError(f"figure: {NEEDED}", name="matplotlib") from None
    return Figure(figsize=(width, height), layout="constrained")


def budget_figure(k: int, sample_rate: float) -> Figure:
    """Return delta over epsilon, from the smallest epsilon on, on a logarithmic scale.

    Raises
    ------
    PolicyError
        The rate is 1.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    if sample_rate == 1:
        raise PolicyError("sample_rate 1 has no epsilon, so there is nothing to draw; choose one below 1")
    figure, least = _figure(7, 4.5), smallest_epsilon(sample_rate)
    epsilons = np.linspace(least, max(3 * least, least + 1), _POINTS)
    powers = [log_delta(k, sample_rate, epsilon) / log(10) for epsilon in epsilons.tolist()]
    axes = figure.subplots()
    # The plot uses logarithms, because delta may underflow a float.
    axes.plot(epsilons, powers)
    axes.axhline(k * log(sample_rate) / log(10), linestyle="--", color="gray", label="sample_rate^k, the least delta")
    axes.axvline(least, linestyle=":", color="gray", label="-ln(1 - sample_rate), the least epsilon")
    axes.set(xlabel="epsilon", ylabel="delta, as a power of 10", title=f"sample_rate {sample_rate:.12g}, k {k}")
    axes.set_ylim(top=0)
    axes.legend()
    return figure


def attack_figure(attacks: Sequence[DrawnAttack], allowed: Sequence[float | None]) -> Figure:
    """Return the success of each attack with its confidence interval, its baseline, and the maximum that k allows.

    ``allowed``: (attacks,) that maximum; None: k implies none.

    Raises
    ------
    ModuleNotFoundError
        matplotlib is not installed.
    """
    figure = _figure(9, 0.32 * len(attacks) + 1.2)
    axes, rows = figure.subplots(), range(len(attacks))
    color, marker = _STYLES[0]
    axes.hlines(
        rows, [max(attack.low, 0) for attack in attacks], [attack.high for attack in attacks], color=color, linewidth=2
    )
    axes.scatter(
        [attack.success for attack in attacks], rows, c=color, marker=marker, label="success, 95 % interval", zorder=3
    )
    for label, (color, marker), values in (
        ("baseline", (_STYLES[1][0], "x"), [attack.baseline for attack in attacks]),
        ("by k", ("black", "|"), allowed),
    ):
        known = [(value, row) for row, value in zip(rows, values, strict=True) if value is not None]
        if known:
            x, y = zip(*known, strict=True)
            axes.scatter(x, y, c=color, marker=marker, s=70, label=label, zorder=3)
    axes.set_yticks(rows, [f"{attack.name} ({attack.knows})" for attack in attacks])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of tries that succeed")
    axes.grid(axis="x", alpha=0.25, linewidth=0.6)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def plan_figure(plan: DrawnPlan) -> Figure:
    """Return the loss, suppression and delay of the settings of a plan, two at a time.

    Raises
    ------
    ModuleNotFoundError
        matplotlib is not installed.
    """
    figure = _figure(12, 4.6)
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
    return figure


def _panel(axes: Any, plan: DrawnPlan, across: str, up: str) -> None:
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


def _ring(axes: Any, plan: DrawnPlan, names: tuple[str, str], points: list[Point], **style: Any) -> None:
    x, y = ([_value(plan, plan.figures[point], name) for point in points] for name in names)
    axes.scatter(x, y, facecolors="none", zorder=3, **style)


def _value(plan: DrawnPlan, figures: Figures, name: str) -> float:
    if name == "suppressed":
        return 100 * figures.suppressed
    if name == "loss":
        return figures.loss
    # A logarithmic axis has no 0.
    return max(figures.delay / MINUTE, 1e-3) if plan.timed else max(figures.delay, 1.0)
