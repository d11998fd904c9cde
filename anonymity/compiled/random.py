"""Random stream of a shard: ChaCha20 in counter mode, which can be stored, restored and replayed.

An attacker with access to releases may try to predict the next choice, so a statistical generator is insufficient.
Numba cannot call a cryptographic library from a compiled loop; this is the block function of RFC 8439, tested against
its vectors.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, entry, inner, leaf, procedure

KEY_BYTES = 32
_WORDS = 16
_QUARTERS = (  # four columns, then four diagonals
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)


class RandomStream(NamedTuple):
    """A key, and the number of words used from its stream.

    Attributes
    ----------
    key : (8,) the key's words, little-endian
    used : (1,) number of 32-bit words used so far
    words : (16,) the current block of the stream
    """

    key: NDArray[np.uint32]
    used: NDArray[np.uint64]
    words: NDArray[np.uint32]


class CounterRandom(NamedTuple):
    """A random stream with access to any index, independent of earlier draws.

    Attributes
    ----------
    key : (8,) the key's words, little-endian
    position : (4,) of the current block, as ``chacha20_block`` takes it
    words : (16,) the current block, of eight numbers
    """

    key: NDArray[np.uint32]
    position: NDArray[np.uint32]
    words: NDArray[np.uint32]


def counter_random(key: NDArray[np.uint32]) -> CounterRandom:
    """Return an indexed random stream of a shard.

    It is derived from ``key``, the key of the shard's random stream, but independent of the shard's other streams.
    """
    derived = hashlib.blake2b(key.astype("<u4").tobytes(), digest_size=KEY_BYTES, person=b"crenel-delay").digest()
    made = CounterRandom(np.frombuffer(derived, "<u4").copy(), np.zeros(4, np.uint32), np.zeros(_WORDS, np.uint32))
    chacha20_block(made.key, made.position, made.words)
    return made


def shard_key(seed: int | None, shard: int) -> bytes:
    """Return the key of one shard's stream: from the operating system, or from ``seed`` for a repeatable run."""
    if seed is None:
        return secrets.token_bytes(KEY_BYTES)
    return hashlib.blake2b(f"{seed}/{shard}".encode(), digest_size=KEY_BYTES, person=b"crenel-shard").digest()


def random_stream(key: bytes, used: int = 0) -> RandomStream:
    """Return the stream of ``key`` (32 bytes) after ``used`` words."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a random key has {KEY_BYTES} bytes, not {len(key)}")
    stream = RandomStream(np.frombuffer(key, "<u4").copy(), np.array([used], np.uint64), np.zeros(_WORDS, np.uint32))
    if used % _WORDS:
        words = np.zeros(4, np.uint32)
        words[0], words[1] = used // _WORDS & 0xFFFFFFFF, used // _WORDS >> 32
        chacha20_block(stream.key, words, stream.words)
    return stream


@entry
def chacha20_block(key: NDArray[np.uint32], position: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
    """Fill ``out`` (16,) with the block at ``position`` (4,), counter and nonce (RFC 8439, Section 2.3)."""
    x = np.empty(16, np.uint32)
    x[0], x[1], x[2], x[3] = 0x61707865, 0x3320646E, 0x79622D32, 0x6B206574
    for i in range(8):  # slices would make numba compile an error message for different shapes
        x[4 + i] = key[i]
    for i in range(4):
        x[12 + i] = position[i]
    for i in range(16):
        out[i] = x[i]
    for _ in range(10):
        for i in range(8):
            a, b, c, d = _QUARTERS[i]
            x[a] += x[b]
            x[d] ^= x[a]
            x[d] = (x[d] << np.uint32(16)) | (x[d] >> np.uint32(16))
            x[c] += x[d]
            x[b] ^= x[c]
            x[b] = (x[b] << np.uint32(12)) | (x[b] >> np.uint32(20))
            x[a] += x[b]
            x[d] ^= x[a]
            x[d] = (x[d] << np.uint32(8)) | (x[d] >> np.uint32(24))
            x[c] += x[d]
            x[b] ^= x[c]
            x[b] = (x[b] << np.uint32(7)) | (x[b] >> np.uint32(25))
    for i in range(16):
        out[i] += x[i]


@inner
def next_word(stream: RandomStream) -> Int:
    """Return the next 32 random bits."""
    used = stream.used[0]
    word = used % np.uint64(16)
    if word == 0:
        block = used // np.uint64(16)
        position = np.zeros(4, np.uint32)
        position[0] = block & np.uint64(0xFFFFFFFF)
        position[1] = block >> np.uint64(32)
        chacha20_block(stream.key, position, stream.words)
    stream.used[0] = used + np.uint64(1)
    return np.int64(stream.words[word])


@inner
def randbelow(stream: RandomStream, bound: Int) -> Int:
    """Return a uniform integer from 0 to ``bound - 1``, 1 <= bound <= 2**62; a bound of 1 uses no word."""
    if bound == 1:
        return 0
    mask = 1
    while mask < bound:
        mask <<= 1
    while True:  # rejection, so that all values are equally likely
        value = next_word(stream)
        if mask > 1 << 32:
            value |= next_word(stream) << 32
        value &= mask - 1
        if value < bound:
            return value


def key_bytes(words: NDArray[Any]) -> bytes:
    """Return the 32 bytes of a key stored as eight 32-bit words."""
    key: bytes = words.astype("<u4").tobytes()
    return key


@leaf
def uniform_at(random: CounterRandom, number: Int) -> float:
    """Return the random number at index ``number``, at least 0: uniform in [0, 1), with 53 bits."""
    block, word = np.uint64(number >> 3), 2 * (number & 7)
    low, high = np.uint32(block & np.uint64(0xFFFFFFFF)), np.uint32(block >> np.uint64(32))
    if random.position[0] != low or random.position[1] != high:
        random.position[0], random.position[1] = low, high
        chacha20_block(random.key, random.position, random.words)
    bits = (np.int64(random.words[word + 1]) << 32 | np.int64(random.words[word])) >> 11 & ((1 << 53) - 1)
    return float(bits * 2.0**-53)


@procedure
def shuffle(stream: RandomStream, values: NDArray[np.int32], start: Int, stop: Int) -> None:
    """Shuffle ``values[start:stop]`` in place (Fisher-Yates)."""
    for i in range(stop - 1, start, -1):
        j = start + randbelow(stream, i - start + 1)
        values[i], values[j] = values[j], values[i]
