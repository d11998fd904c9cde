"""What leaves a shard: releases with their members, and suppressed tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Releases:
    """Everything that left during one step, as columns.

    Attributes
    ----------
    release_id : (releases,) counts the releases of the shard from 0
    kind : (releases,) position in ``anonymity.policy.KINDS``
    subjects : (releases,) distinct subjects behind the generalisation; for ``reused`` those of the first release
    tuples : (releases,) members that leave now
    diversity : (releases, sensitive attributes) distinct sensitive values behind the generalisation
    loss : (releases,) InfoLoss in [0, 1] (CASTLE, Section 2.2)
    event_time : (releases,) epoch milliseconds that the shard had reached, ``state.block.NO_TIME`` without event time
    lower, upper : (releases, numeric quasi-identifiers) the published interval, both ends included
    node : (releases, categorical quasi-identifiers) the published node of each hierarchy
    offsets : (releases + 1,) release i has the members offsets[i] to offsets[i + 1]
    members : one list a published column, in the order of ``Policy.members``; None where a value is missing
    suppressed_reason : (suppressed,) position in ``anonymity.policy.SUPPRESSIONS``
    suppressed_position : (suppressed,) position in the shard, counted from 0
    suppressed_event_time : (suppressed,) epoch milliseconds, ``NO_TIME`` without event time
    """

    release_id: NDArray[np.int64]
    kind: NDArray[np.int8]
    subjects: NDArray[np.int64]
    tuples: NDArray[np.int64]
    diversity: NDArray[np.int64]
    loss: NDArray[np.float64]
    event_time: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    offsets: NDArray[np.int64]
    members: tuple[list[Any], ...]
    suppressed_reason: NDArray[np.int8]
    suppressed_position: NDArray[np.int64]
    suppressed_event_time: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.release_id)
