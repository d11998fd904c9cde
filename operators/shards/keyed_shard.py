"""Live state of one Flink key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Shard
from crenel.operators.shards.chain import Chain
from crenel.operators.shards.stream_diagnostics import StreamDiagnostics


class KeyedShard:
    """One key: the shard with its counters, rejected records, diagnostics, hash chain and current timer."""

    def __init__(
        self, shard: Shard, rejected: NDArray[np.int64], diagnostics: StreamDiagnostics, chain: Chain | None = None
    ) -> None:
        self.shard = shard
        self.chain = chain
        self.diagnostics = diagnostics
        self.counters = shard.counters
        self.rejected = rejected
        self.timer: int | None = None
