"""State of a shard of a batch algorithm; its other entries are buffered tuples.

A block is stored under the position of its first tuple that was buffered after the block's arrival. It contains no
tuple that has departed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from crenel.state.shard import COUNTERS, MEMBERS, ShardState, StateColumn, arrays, numbers, texts


@dataclass(frozen=True, kw_only=True)
class BatchState(ShardState):
    """State of a shard without its tuples; ``numbers``: next position, next release.

    Attributes
    ----------
    counted : counters of the algorithm itself, by name
    """

    KIND: ClassVar[str] = "batch"
    VERSION: ClassVar[int] = 1
    COLUMNS: ClassVar[tuple[StateColumn, ...]] = (
        *arrays("numbers", "lower", "upper", "key", "kinds", "delays"),
        *texts("fingerprint", "suppressed", "entries", "counted"),
        numbers("counts", "shard", "released", "longest_delay"),
        *COUNTERS,
        *MEMBERS,
        numbers("key_used", form="u8"),
        numbers("loss", "loss_sum", form="f8"),
    )

    counted: dict[str, int] = field(default_factory=dict)
