"""Deadlines of one's own, computed anew in plain Python: a keyed hash of the shard's key, then ChaCha20 (RFC 8439)."""

from __future__ import annotations

import hashlib
import struct
from fractions import Fraction
from functools import lru_cache

_LAST = 2**63 - 1  # deadlines beyond it are the same


def last_position(key: bytes, position: int, delay: int, jitter: float) -> int:
    """Return the last position that a tuple may wait for."""
    return position + wait(key, position, delay, jitter)


def last_time(key: bytes, position: int, event_time: int, delay: int, jitter: float) -> int:
    """Return the epoch milliseconds at which it must leave."""
    return min(event_time + wait(key, position, delay, jitter), _LAST)


def wait(key: bytes, position: int, delay: int, jitter: float) -> int:
    """Return the wait that is drawn for a tuple, from ``delay`` down to (1 - jitter) of it."""
    early = int(jitter * delay)
    return delay - int(drawn(key, position) * (early + 1)) if early else delay


def drawn(key: bytes, number: int) -> Fraction:
    """Return a number from 0 to 1, of 53 bits."""
    words = _block(key, number // 8)
    low, high = words[number % 8 * 2 : number % 8 * 2 + 2]
    return Fraction((high << 32 | low) >> 11, 2**53)


@lru_cache(4096)
def _block(key: bytes, number: int) -> list[int]:
    derived = struct.unpack("<8I", hashlib.blake2b(key, digest_size=32, person=b"crenel-delay").digest())
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *derived, number % 2**32, number >> 32, 0, 0]
    x = list(start)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for into, of, mixed, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[into] = (x[into] + x[of]) % 2**32
            mix = x[mixed] ^ x[into]
            x[mixed] = (mix << turn | mix >> (32 - turn)) % 2**32

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(one + other) % 2**32 for one, other in zip(x, start, strict=True)]
