"""State of a shard of a batch algorithm; its other entries are buffered tuples.

A block is stored under the position of its first tuple that was buffered after the block's arrival. It contains no
tuple that has departed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from crenel.state.codec import Column
from crenel.state.shard import COUNTERS, MEMBERS, ShardState, StateColumn, arrays, numbers, texts

VERSION = 2
"""Format version of the blob.

2 added ``BatchState.counted``, and stores each block separately; version 1 stored all buffered tuples as one block
under 0.
"""


@dataclass(frozen=True, kw_only=True)
class BatchState(ShardState):
    """State of a shard without its tuples; ``numbers``: next position, next release.

    Attributes
    ----------
    counted : counters of the algorithm itself, by name
    """

    KIND: ClassVar[str] = "batch"
    VERSION: ClassVar[int] = VERSION
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

    @classmethod
    def _upgraded(cls, version: int, columns: Mapping[str, Column]) -> dict[str, Any]:
        return {"counted": {}} if version < 2 else {}
