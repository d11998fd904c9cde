"""How much of a number's range a published interval covers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def covered(lower: NDArray[np.float64], upper: NDArray[np.float64], whole: tuple[float, float]) -> NDArray[np.float64]:
    """The loss of each interval, 0 to 1: its width, of that of ``whole`` (CASTLE, Section 2.2)."""
    width = whole[1] / 2 - whole[0] / 2  # of halves: the largest numbers are further apart than any number says
    # Whole ends are rounded outwards, and so may lie beyond the domain's.
    return np.minimum((upper / 2 - lower / 2) / width, 1.0) if width > 0 else np.zeros(len(lower))
