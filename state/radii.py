"""Stored radii of buffered tuples, for nearest release with a price of isolation; a tuple's newest entry is valid.

======  ==================  ==============================  ==========================================================
name    key                 content                         written
======  ==================  ==============================  ==========================================================
radii   number of the step  radii that changed in the step  once; rewritten when few of its rows are still current;
                                                            removed when none is
======  ==================  ==============================  ==========================================================

A tuple's radius still changes after its block is stored, so it has entries of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import arrays_of, pack

VERSION = 1


@dataclass(frozen=True)
class Radii:
    """Radii of some tuples.

    Attributes
    ----------
    position : (tuples,) position of each tuple, ascending
    radius : (tuples,) its radius, 0 to 1
    """

    position: NDArray[np.int64]
    radius: NDArray[np.float64]

    def to_bytes(self) -> bytes:
        return pack("radii", VERSION, vars(self))

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> Radii:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        return cls(**arrays_of("radii", (field.name for field in fields(cls)), blob, VERSION, where))
