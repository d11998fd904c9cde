"""A sample of tuples that come in blocks."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.regions.loss import Sample
from crenel.state.block import Block

_SEED = 0
"""The same source gives the same sample, and so the same regions."""


class Sampler:
    """Keeps the quasi-identifiers of some tuples.

    Parameters
    ----------
    rows : how many, 1 or more
    first : the first ones; else any with the same probability, however many come
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
        """Whether what comes later changes nothing."""
        return self._first and self.seen >= self._rows

    @property
    def sample(self) -> Sample | None:
        """What is kept; None where nothing has come."""
        return self._kept

    def add(self, block: Block) -> None:
        """Take in the tuples of a block, or some of them."""
        if not len(block):
            return
        came = Sample(block.numeric, block.categorical)
        # Each tuple draws a number, and the lowest stay; positions stand for them where the first ones do.
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
