"""Plot of delta against epsilon."""

from __future__ import annotations

from math import log
from pathlib import Path

import numpy as np

from crenel.anonymity.model.errors import InputError
from crenel.anonymity.noise.budget import log_delta, smallest_epsilon

_POINTS = 400
_FORMATS = (".png", ".svg")


class PlotError(InputError):
    """Error for a picture that cannot be drawn; the message names the option and a remedy."""


def draw(path: Path, k: int, sample_rate: float) -> None:
    """Plot delta over epsilon, from the smallest epsilon on, on a logarithmic scale.

    Parameters
    ----------
    path : ends in .png or .svg; an existing file is replaced

    Raises
    ------
    PlotError
        The path has another ending, the rate is 1, matplotlib is not installed, or the file cannot be written.
    """
    if path.suffix.lower() not in _FORMATS:
        raise PlotError(f"--plot: {path.name} has an ending that is not known; one of {', '.join(_FORMATS)}")
    if sample_rate == 1:
        raise PlotError("--plot: sample_rate 1 has no epsilon, so there is nothing to draw; choose one below 1")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError("--plot: needs matplotlib, which the extra 'plot' brings: pip install 'crenel[plot]'") from None
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
    try:
        figure.savefig(path)
    except OSError as error:
        raise PlotError(f"--plot: {path} cannot be written: {error.strerror}") from None
