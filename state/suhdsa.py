"""State of a SUHDSA shard in two kinds of entries, as columns and as bytes.

========  =============  ===========================================  =========================================
name      key            content                                      written
========  =============  ===========================================  =========================================
window    -              counters, carried tuples, random state       after each step
blocks    block number   tuples buffered after their block's arrival  on arrival, and again when most have
                                                                      departed; removed when all have
========  =============  ===========================================  =========================================

A stored tuple is still buffered if it arrived since the last window closed, so that its position is at least
``SuhdsaState.first``, or if its position is in ``SuhdsaState.carried``. The stored name of the algorithm is ``window``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import Column, array
from crenel.state.shard import COUNTERS, MEMBERS, ShardState, StateColumn, arrays, numbers, texts

VERSION = 2
"""Format version of the blob.

2 counts suppressed tuples by reason and records the inventory of entries; the operator counts rejected records, and the
shard's event time is no longer stored.
"""


@dataclass(frozen=True, kw_only=True)
class SuhdsaState(ShardState):
    """State of a shard without its tuples; ``numbers``: next position, next release, next window and next block.

    Attributes
    ----------
    first : position from which on all tuples are buffered, except forgotten ones
    carried : positions below ``first`` of buffered tuples, ascending
    reason : (carried,) position in ``reasons`` of the reason that kept each tuple from release
    reasons : ``Privacy.reasons`` when the state was stored
    controllers : (6,) window size in tuples, -1 where there is none; target; windows since the target changed; maximum
        number of sensitive values in a window; whether the size grows; windows evaluated since the size changed
    control : (5,) smoothed entropy, normalized entropy when the target was set, sums of loss and delay since the size
        changed, cost before that; -1 where there is none yet
    merges, swaps : totals so far, as in ``SuhdsaCounters``
    gone : positions from ``first`` on of forgotten tuples; stored where there are any
    """

    KIND: ClassVar[str] = "window"
    VERSION: ClassVar[int] = VERSION
    COLUMNS: ClassVar[tuple[StateColumn, ...]] = (
        *texts("fingerprint", "reasons", "suppressed", "entries"),
        numbers("shard"),
        *arrays("numbers"),
        numbers("first"),
        *arrays("carried", "reason", "controllers", "control", "lower", "upper", "key"),
        numbers("key_used", form="u8"),
        numbers("totals", "released", "longest_delay", "merges", "swaps"),
        *arrays("kinds"),
        numbers("loss_total", "loss_sum", form="f8"),
        *arrays("delays"),
        *COUNTERS,
        *MEMBERS,
        *arrays("gone", optional=True),
    )

    first: int
    carried: NDArray[np.int64]
    reason: NDArray[np.int8]
    reasons: Sequence[str]
    controllers: NDArray[np.int64]
    control: NDArray[np.float64]
    merges: int
    swaps: int
    gone: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def _upgraded(cls, version: int, columns: Mapping[str, Column]) -> dict[str, Any]:
        if version >= 2:
            return {}
        shard, next_block, first = array(columns, "numbers").tolist()
        # Version 1 kept the shard's event time among the scalars; it was that of the tuple farthest ahead.
        position, release, window, _, *controllers = array(columns, "scalars").tolist()
        released, merges, swaps, longest, *others = array(columns, "totals").tolist()
        reasons = ("outlier", "too_few_subjects", "too_little_diversity")
        return {
            "shard": shard,
            "numbers": np.array([position, release, window, next_block], np.int64),
            "first": first,
            "reasons": reasons,
            "controllers": np.array(controllers, np.int64),
            "released": released,
            "longest_delay": longest,
            "merges": merges,
            "swaps": swaps,
            "suppressed": dict(zip(reasons, others[:3], strict=True)),
            "kinds": np.array(others[3:], np.int64),
            "entries": None,
            "rejected": array(columns, "rejected"),
        }
