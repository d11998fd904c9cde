"""How common sensitive values have been in a shard's stream, as it is stored: some values of a column in each entry.

====  ============================  ==================================================  ==============================
name  key                           content                                             written
====  ============================  ==================================================  ==============================
seen  column * 64 + number of the   64 values in the order in which they first came:    when one of them came; that of
      entry within the column       code and tuples; in the first one those of all      number 0 whenever a tuple came
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
    """Some values of one column.

    Attributes
    ----------
    code : (values,) as in ``Block.sensitive``; 0 where ``amount`` is
    amount : (values,) tuples that have it
    total : (1,) tuples in all
    """

    code: NDArray[np.uint64]
    amount: NDArray[np.int64]
    total: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        return pack("seen", VERSION, vars(self))

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> SeenValues:
        """Read a blob; raises ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        return cls(**arrays_of("seen", (field.name for field in fields(cls)), blob, VERSION, where))
