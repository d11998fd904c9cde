"""SVG pictures in the colors of the page (light, dark, print), with patterns or marks beside color."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from crenel.evidence.report.context import ReportError, plain, short

NEEDED = "needs Jinja2 and matplotlib: install crenel with its extra 'report'"

# Placeholders for colors of the page, which differ between light and dark.
INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#040404"
MAIN, SECOND, THIRD = "#050505", "#060606", "#070707"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    MAIN: "var(--main)",
    SECOND: "var(--second)",
    THIRD: "var(--third)",
}

_WIDTH = 5.0
"""Inches, at 72 units each: narrow enough that letters stay legible at the width of a telephone."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "crenel",
    "font.size": 10.5,
    "font.family": "sans-serif",
    "hatch.linewidth": 0.6,
    "hatch.color": PAPER,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "legend.frameon": False,
    "legend.fontsize": 10,
}


def bars(name: str, labels: Sequence[str], shares: Sequence[float], unit: str) -> str:
    """Draw a bar for each label, with its share of 1 beside it."""
    with _drawing(0.26 * len(labels) + 0.75) as (axes, drawn):
        _rows(axes, labels)
        axes.barh(range(len(labels)), shares, height=0.72, color=MAIN)
        for place, share in enumerate(shares):
            axes.annotate(
                _percent(share), (share, place), (4, 0), textcoords="offset points", va="center", fontsize=9.5
            )
        _percent_axis(axes, max(shares, default=1.0), unit)
    return _page_svg(name, drawn)


def paired_bars(name: str, labels: Sequence[str], came: Sequence[float], left: Sequence[float]) -> str:
    """Draw two bars for each label: its share of 1 of the input, hatched, and of the output."""
    with _drawing(0.42 * len(labels) + 1.0) as (axes, drawn):
        _rows(axes, labels)
        bar_positions = range(len(labels))
        axes.barh(
            [p - 0.2 for p in bar_positions],
            came,
            height=0.36,
            color=SECOND,
            hatch="////",
            edgecolor=PAPER,
            label="input",
        )
        axes.barh([p + 0.2 for p in bar_positions], left, height=0.36, color=MAIN, label="output")
        _percent_axis(axes, max(*came, *left), "of tuples")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return _page_svg(name, drawn)


def line(name: str, labels: Sequence[str], values: Sequence[float], what: str) -> str:
    """Draw a line through values from 0 to 1, in order."""
    with _drawing(2.7) as (axes, drawn):
        axes.plot(range(len(values)), values, color=MAIN, marker="o", markersize=4, linewidth=1.8, clip_on=False)
        axes.set_ylim(0, min(1.0, max(values, default=1.0) * 1.25) or 1.0)
        axes.yaxis.set_major_formatter(lambda value, _: _percent(value))
        step = -(-len(labels) // 5)
        axes.set_xticks(range(0, len(labels), step), [short(labels[i]) for i in range(0, len(labels), step)])
        axes.set_ylabel(what)
        axes.grid(axis="y")
        _bare(axes)
    return _page_svg(name, drawn)


def intervals(
    name: str,
    labels: Sequence[str],
    values: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    baselines: Sequence[float | None],
) -> str:
    """Draw a point with its interval for each label, and a cross at its baseline; all are shares of 1."""
    with _drawing(0.42 * len(labels) + 1.0) as (axes, drawn):
        _rows(axes, labels)
        for place, (value, (low, high), baseline) in enumerate(zip(values, bounds, baselines, strict=True)):
            first = place == 0
            axes.plot([max(low, 0), high], [place, place], color=MAIN, linewidth=2)
            axes.plot(value, place, "o", color=MAIN, markersize=7, label="success, 95 % interval" if first else None)
            if baseline is not None:
                axes.plot(baseline, place, "x", color=SECOND, markersize=9, markeredgewidth=2.2)
        if any(baseline is not None for baseline in baselines):
            axes.plot([], [], "x", color=SECOND, markersize=9, markeredgewidth=2.2, label="baseline")
        _percent_axis(axes, max([high for _, high in bounds] + [b for b in baselines if b is not None]), "of tries")
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)  # long labels leave room there
    return _page_svg(name, drawn)


def flow(name: str, source: str, parts: Sequence[tuple[str, float, str]]) -> str:
    """Draw the division of a stream of rows into parts.

    Parameters
    ----------
    source : label of all rows
    parts : label, rows, and one of ``released``, ``suppressed``, ``rejected``, of each
    """
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path

    looks = {
        "released": {"facecolor": MAIN},
        "suppressed": {"facecolor": SECOND, "hatch": "////", "edgecolor": PAPER},
        "rejected": {"facecolor": THIRD, "hatch": "\\\\\\\\", "edgecolor": PAPER},
    }
    total, gap, thin = sum(rows for _, rows, _ in parts), 0.9, 0.06
    with _drawing(0.5 * len(parts) + 1.5) as (axes, drawn):
        height = 0.5 * len(parts) + 2.0
        scale = height / (total or 1)
        axes.add_patch(Rectangle((0, -height), 0.2, height, facecolor=MUTED))
        axes.text(0, 0.15, source, va="bottom", fontweight="bold")
        begin, place = 0.0, 0.0
        for words, rows, kind in parts:
            size = rows * scale
            wide = max(size, thin)
            end = [(0.2, -begin), (0.9, -begin), (0.9, -place), (1.5, -place)]
            back = [(1.5, -place - wide), (0.9, -place - wide), (0.9, -begin - size), (0.2, -begin - size)]
            codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
            way = Path([*end, *back, (0.2, -begin)], codes)
            axes.add_patch(PathPatch(way, linewidth=0, alpha=0.85, **looks[kind]))
            axes.text(1.6, -place - wide / 2, words, va="center")
            begin += size
            place += max(wide, gap - 0.35) + 0.35
        axes.set_xlim(0, 5.0)
        axes.set_ylim(-max(height, place), 0.9)
        axes.axis("off")
    return _page_svg(name, drawn)


def _rows(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), [short(plain(label)) for label in labels])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    _bare(axes)


def _percent_axis(axes: Any, most: float, unit: str) -> None:
    axes.set_xlim(0, min(1.0, most) * 1.18 or 1)
    axes.xaxis.set_major_formatter(lambda value, _: _percent(value))
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(unit)
    axes.grid(axis="x")
    axes.set_axisbelow(True)


def _bare(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}"


@contextmanager
def _drawing(height: float) -> Iterator[tuple[Any, list[str]]]:
    """Yield axes and a list, which holds the SVG after the block has ended."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise ReportError(f"the report {NEEDED}") from None
    drawn: list[str] = []
    # matplotlib warns of glyphs that its layout font lacks; the reader's font displays them.
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(_WIDTH, height), dpi=72, layout="constrained")
        yield figure.subplots(), drawn
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        drawn.append(file.getvalue())


def _page_svg(name: str, drawn: list[str]) -> str:
    """Return a picture for embedding: identifiers with a prefix, the page's colors and font, and no style rules."""
    text = drawn[0]
    text = text[text.index("<svg") :].rstrip()
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r' id="([^"]+)"', rf' id="{name}-\1"', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text).replace('xlink:href="#', f'xlink:href="#{name}-')
    for color, variable in _VARIABLES.items():
        text = text.replace(color, variable)
    text = re.sub(r"font-family: [^;\"]*;?", "", text)
    view = re.search(r'viewBox="[^"]*"', text)
    box = view.group() if view else ""
    opening = f'<svg {box} role="img" aria-labelledby="{name}-title" aria-describedby="{name}-text">'
    return opening + text[text.index(">") + 1 :]
