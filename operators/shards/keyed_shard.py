"""What the operator keeps of one key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Shard
from crenel.operators.shards.chain import Chain
from crenel.operators.shards.stream_diagnostics import StreamDiagnostics


class KeyedShard:
    """One key: the shard, its counters, rows rejected with it, its hash chain, and the timer that is set for it."""

    def __init__(
        self, shard: Shard, rejected: NDArray[np.int64], oddities: StreamDiagnostics, chain: Chain | None = None
    ) -> None:
        self.shard = shard
        self.chain = chain
        self.oddities = oddities
        self.counters = shard.counters
        self.rejected = rejected
        self.timer: int | None = None
