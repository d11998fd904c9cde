"""Information loss of published intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def covered(lower: NDArray[np.float64], upper: NDArray[np.float64], whole: tuple[float, float]) -> NDArray[np.float64]:
    """Return the loss of each interval, 0 to 1: its width as a share of that of ``whole`` (CASTLE, Section 2.2)."""
    width = whole[1] / 2 - whole[0] / 2  # halves, because the full range may overflow
    # Rounding widens integer ends, possibly beyond the domain.
    return np.minimum((upper / 2 - lower / 2) / width, 1.0) if width > 0 else np.zeros(len(lower))
