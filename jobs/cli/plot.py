"""Picture files of commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crenel.anonymity.model.errors import InputError, PolicyError
from crenel.evidence.figures import NEEDED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from crenel.evidence.budget import Budget

_FORMATS = (".png", ".svg")


class PlotError(InputError):
    """Error for a picture that cannot be drawn; the message names the option and a remedy."""


def require_drawable(path: Path) -> None:
    """Raise ``PlotError`` if no picture can be drawn there, before the slow steps."""
    if path.suffix.lower() not in _FORMATS:
        raise PlotError(f"--plot: {path.name} has an ending that is not known; one of {', '.join(_FORMATS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotError(f"--plot: {NEEDED}") from None


def draw_budget(path: Path, budget: Budget) -> None:
    """Write the figure of a budget; raise ``PlotError`` if it cannot be drawn there, or there is nothing to draw."""
    require_drawable(path)
    try:
        save(budget.figure(), path)
    except PolicyError as error:
        raise PlotError(f"--plot: {error}") from None


def save(figure: Figure, path: Path) -> None:
    """Write a figure; ``path`` ends in .png or .svg, and an existing file is replaced.

    Raises
    ------
    PlotError
        The file cannot be written.
    """
    try:
        figure.savefig(path)
    except OSError as error:
        raise PlotError(f"--plot: {path} cannot be written: {error.strerror}") from None
