"""The promise of every release, checked before anything of it leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, inner


@inner
def guarantee(k: Int, l: Int, subjects: Int, diversity: NDArray[np.int64]) -> None:  # noqa: E741
    """Raise where a release has too few distinct subjects, or values of a sensitive attribute."""
    if subjects < k:
        raise RuntimeError("a release has fewer than k distinct subjects; nothing of it was emitted")
    for found in diversity:
        if found < l:
            raise RuntimeError("a release has fewer than l distinct sensitive values; nothing of it was emitted")
