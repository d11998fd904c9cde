"""Noise of the count of each key: a pseudorandom function of the shard's secret key."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry
from crenel.anonymity.compiled.random import KEY_BYTES, RandomStream
from crenel.anonymity.noise.laplace import discrete_laplace
from crenel.anonymity.noise.selection import NoisyCounts


class CountNoise:
    """Discrete Laplace noise of the counts of one shard.

    The noise of a key is drawn from a stream of its own, whose ChaCha20 key is a keyed BLAKE2b hash of the key. So a
    replay after a failure draws the same noise, and no two batches share any: a difference between two counts with the
    same noise would be exact.

    Parameters
    ----------
    key : 32 secret bytes of the shard
    counts : scale of the noise
    """

    def __init__(self, key: bytes, counts: NoisyCounts) -> None:
        self._key, self._counts = key, counts

    def drawn(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return (keys,) the noise of each key.

        Parameters
        ----------
        keys : (keys, parts) all that tells a key from those of all batches of the shard
        """
        streams = b"".join(
            hashlib.blake2b(row, digest_size=KEY_BYTES, key=self._key, person=b"crenel-counts").digest()
            for row in map(bytes, np.ascontiguousarray(keys.astype("<i8")))
        )
        noise = np.zeros(len(keys), np.int64)
        words = np.frombuffer(streams, "<u4").reshape(-1, 8).copy()
        draw_counts(words, np.int64(self._counts.numerator), np.int64(self._counts.denominator), noise)
        return noise


@entry
def draw_counts(keys: NDArray[np.uint32], numerator: Int, denominator: Int, noise: NDArray[np.int64]) -> None:
    """Fill ``noise`` with noise of the scale numerator / denominator, each from the beginning of a stream of its own.

    Parameters
    ----------
    keys : (counts, 8) the words of the key of each stream
    noise : (counts,) the result
    """
    for i in range(len(noise)):
        key = np.empty(8, np.uint32)
        for j in range(8):
            key[j] = keys[i, j]
        stream = RandomStream(key, np.zeros(1, np.uint64), np.zeros(16, np.uint32))
        noise[i] = discrete_laplace(stream, numerator, denominator)
