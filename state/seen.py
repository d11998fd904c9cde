"""Stored frequencies of sensitive values in a shard's stream, several values of a column per entry.

====  ============================  ==================================================  ==============================
name  key                           content                                             written
====  ============================  ==================================================  ==============================
seen  column * 64 + number of the   64 values in order of first appearance: code and    when one of them arrives;
      entry within the column       tuples; in number 0 the valid total of the column   number 0 with each tuple
====  ============================  ==================================================  ==============================
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import arrays_of, pack

VERSION = 1


@dataclass(frozen=True)
class SeenValues:
    """Frequencies of some values of one column.

    Attributes
    ----------
    code : (values,) as in ``Block.sensitive``; 0 where ``amount`` is 0
    amount : (values,) tuples with the value
    total : (1,) all tuples
    """

    code: NDArray[np.uint64]
    amount: NDArray[np.int64]
    total: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        return pack("seen", VERSION, vars(self))

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> SeenValues:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        return cls(**arrays_of("seen", (field.name for field in fields(cls)), blob, VERSION, where))
