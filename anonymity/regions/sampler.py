"""Sampling of tuples from a stream of blocks."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.regions.loss import Sample
from crenel.state.block import Block

_SEED = 0
"""A constant seed, so that the same source gives the same sample, and so the same regions."""


class Sampler:
    """Sample of the quasi-identifiers of a stream.

    Parameters
    ----------
    rows : size of the sample, at least 1
    first : take the first tuples; otherwise each tuple with equal probability, whatever their number
    """

    def __init__(self, rows: int, *, first: bool) -> None:
        self._rows = rows
        self._first = first
        self._random = np.random.default_rng(_SEED)
        self._kept: Sample | None = None
        self._draws = np.empty(0)
        self.seen = 0

    @property
    def full(self) -> bool:
        """Whether further tuples cannot change the sample."""
        return self._first and self.seen >= self._rows

    @property
    def sample(self) -> Sample | None:
        """The sample; None before the first tuple."""
        return self._kept

    def add(self, block: Block) -> None:
        """Offer the tuples of a block to the sample."""
        if not len(block):
            return
        came = Sample(block.numeric, block.categorical)
        # Each tuple draws a number, and the lowest stay; for the first tuples, the position serves as this number.
        drawn = self.seen + np.arange(len(came)) if self._first else self._random.random(len(came))
        self.seen += len(came)
        draws = np.concatenate((self._draws, drawn))
        kept = came
        if self._kept is not None:
            kept = Sample(
                np.concatenate((self._kept.numeric, came.numeric)),
                np.concatenate((self._kept.categorical, came.categorical)),
            )
        if len(draws) > self._rows:
            lowest = np.argpartition(draws, self._rows - 1)[: self._rows]
            draws, kept = draws[lowest], Sample(kept.numeric[lowest], kept.categorical[lowest])
        self._draws, self._kept = draws, kept
