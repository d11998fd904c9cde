"""What event time had passed when each tuple came, where several encoders tell of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crenel.state.block import NO_TIME, Block


class WatermarkMerger:
    """Judges what rides on blocks by what all encoders have told.

    An encoder knows the watermark of what it reads itself. For the stream event time has passed where it has passed for
    each of them; so nothing that rides on a block counts before each has been heard of, and Flink's own watermark,
    which comes later and knows of sources that are idle, counts alone.

    Parameters
    ----------
    encoders : how many work side by side; where fewer ever tell, Flink's watermark counts alone
    """

    def __init__(self, encoders: int) -> None:
        self._encoders = encoders
        self._latest: dict[int, int] = {}

    def told(self, block: Block) -> Block:
        """The block, with what had passed by all encoders, or nothing of it."""
        if block.watermark is None or not len(block):
            return block
        others = [mark for encoder, mark in self._latest.items() if encoder != block.encoder]
        self._latest[block.encoder] = max(self._latest.get(block.encoder, NO_TIME), int(block.watermark[-1]))
        if len(self._latest) < self._encoders:
            return replace(block, watermark=None)
        return replace(block, watermark=np.minimum(block.watermark, min(others))) if others else block
