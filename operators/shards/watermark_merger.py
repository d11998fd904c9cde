"""Watermarks of tuples merged over several parallel encoders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crenel.state.block import NO_TIME, Block


class WatermarkMerger:
    """Merger of the watermarks that blocks carry from all encoders.

    An encoder knows only the watermark of its own input. The watermark of the stream is the minimum over all encoders,
    so the watermarks of blocks count only after each encoder has sent one. Until then only Flink's watermark counts,
    which arrives later and accounts for idle sources.

    Parameters
    ----------
    encoders : number of parallel encoders; if some never send a watermark, only Flink's counts
    """

    def __init__(self, encoders: int) -> None:
        self._encoders = encoders
        self._latest: dict[int, int] = {}

    def told(self, block: Block) -> Block:
        """Return the block with the watermark over all encoders, or without one."""
        if block.watermark is None or not len(block):
            return block
        others = [mark for encoder, mark in self._latest.items() if encoder != block.encoder]
        self._latest[block.encoder] = max(self._latest.get(block.encoder, NO_TIME), int(block.watermark[-1]))
        if len(self._latest) < self._encoders:
            return replace(block, watermark=None)
        return replace(block, watermark=np.minimum(block.watermark, min(others))) if others else block
