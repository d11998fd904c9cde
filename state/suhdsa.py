"""State of a SUHDSA shard: that of a batch shard, with further fields; its other entries are buffered tuples too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.state.batch import BatchState
from crenel.state.shard import StateColumn, arrays, texts


@dataclass(frozen=True, kw_only=True)
class SuhdsaState(BatchState):
    """State of a shard without its tuples; the first buffered tuples are those carried from closed windows.

    Attributes
    ----------
    reason : (carried,) position in ``reasons`` of the reason that kept each tuple from release
    reasons : ``Privacy.reasons`` when the state was stored
    kept : counts of windows and repairs and state of the controllers, by name; empty before the first step
    """

    KIND: ClassVar[str] = "suhdsa"
    VERSION: ClassVar[int] = 1
    COLUMNS: ClassVar[tuple[StateColumn, ...]] = (
        *BatchState.COLUMNS,
        *arrays("reason"),
        *texts("reasons", "kept"),
    )

    reason: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    reasons: Sequence[str] = ()
    kept: Mapping[str, float] = field(default_factory=dict)
