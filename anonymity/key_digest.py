"""What state keeps of the subject key: enough to tell it from another, too little to guess it by."""

from __future__ import annotations

import hashlib
import secrets
from functools import lru_cache

_SCHEME = "scrypt"
_SALT_BYTES = 16
_COST = 2**14  # 16 MB and some 50 ms for each guess


def key_digest(subject_key: bytes) -> str:
    """What a key is compared by: 32 hexadecimal digits. It is for memory alone; ``salted`` is for state."""
    return hashlib.blake2b(subject_key, digest_size=16, person=b"crenel-subject").hexdigest()


@lru_cache(maxsize=16)
def salted(digest: str) -> str:
    """A digest as it may be stored: with a salt that is drawn once a process, and slow to compute."""
    salt = secrets.token_hex(_SALT_BYTES)
    return f"{_SCHEME}-{salt}-{_slow(digest, salt)}"


def is_salted(stored: str) -> bool:
    """Whether it was written by ``salted``, and not by a version that knew no salt."""
    return stored.startswith(f"{_SCHEME}-")


def matches(stored: str, digest: str) -> bool:
    """Whether something that ``salted`` wrote, perhaps in another process, is of this digest."""
    parts = stored.split("-")
    return len(parts) == 3 and secrets.compare_digest(_slow(digest, parts[1]), parts[2])


@lru_cache(maxsize=64)  # the shards of one savepoint share their salt
def _slow(digest: str, salt: str) -> str:
    return hashlib.scrypt(digest.encode(), salt=salt.encode(), n=_COST, r=8, p=1, dklen=16).hex()
