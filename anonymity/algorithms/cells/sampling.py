"""Coin of each person and window: a pseudorandom function of the shard's secret key."""

from __future__ import annotations

import hashlib
from math import floor

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry
from crenel.anonymity.compiled.random import KEY_BYTES, chacha20_block

_BITS = 53


class Coins:
    """Coins of one shard.

    A coin depends on the key, the person and the window alone. So a replay after a failure tosses the same coins, and
    each window has coins of its own: a sample that windows share would not compose.

    Parameters
    ----------
    key : 32 secret bytes of the shard
    sample_rate : probability that a person is in a window's sample, above 0 and below 1
    """

    def __init__(self, key: bytes, sample_rate: float) -> None:
        derived = hashlib.blake2b(key, digest_size=KEY_BYTES, person=b"crenel-cells").digest()
        self._key = np.frombuffer(derived, "<u4").copy()
        self._below = np.int64(floor(sample_rate * 2**_BITS))

    def sampled(self, subject: NDArray[np.uint64], window: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (tuples,) whether each tuple's person is in the sample of its window.

        Parameters
        ----------
        subject : (tuples,) keyed hashes
        window : (tuples,) numbers of windows, negative ones included
        """
        is_sampled = np.zeros(len(subject), np.bool_)
        toss(self._key, subject, window.view(np.uint64), self._below, is_sampled)
        return is_sampled


@entry
def toss(
    key: NDArray[np.uint32],
    subject: NDArray[np.uint64],
    window: NDArray[np.uint64],
    below: Int,
    is_sampled: NDArray[np.bool_],
) -> None:
    """Set ``is_sampled`` where the first 53 bits of the block at (window, subject) are below ``below``, of 2^53."""
    position, words, low = np.empty(4, np.uint32), np.empty(16, np.uint32), np.uint64(0xFFFFFFFF)
    for i in range(len(is_sampled)):
        position[0] = np.uint32(window[i] & low)
        position[1] = np.uint32(window[i] >> np.uint64(32))
        position[2] = np.uint32(subject[i] & low)
        position[3] = np.uint32(subject[i] >> np.uint64(32))
        chacha20_block(key, position, words)
        bits = (np.uint64(words[1]) << np.uint64(32) | np.uint64(words[0])) >> np.uint64(11)
        is_sampled[i] = np.int64(bits) < below
