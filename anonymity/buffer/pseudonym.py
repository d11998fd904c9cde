"""Pseudonyms: codes by which rows of one person are known to be one person's, and nobody is known by name.

A code is 128 bits of BLAKE2b, keyed, over the person's keyed hash that state holds and what it changes with: nothing,
the UTC day of the row's event time, or the release. Its key is derived from the subject key under a personalisation of
its own, so who reads state and output cannot say which hash a code is of. Who knows the subject key can make the code
of anybody.

What is hashed is fixed for ever: codes of earlier runs must be found again.
"""

from __future__ import annotations

import hashlib

import numpy as np

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.policy import Pseudonym

_CODE_BYTES = 16
_DAY = 86_400_000


def codes(pseudonym: Pseudonym, key: bytes, random_key: bytes, releases: Releases) -> list[str]:
    """A code of 32 hexadecimal digits for each member of some releases of a shard, in their order.

    Parameters
    ----------
    key : ``crenel.anonymity.model.secret.SubjectKey.pseudonym_key``
    random_key : 32 bytes that no other shard has and no other run: release numbers begin anew in each, and codes of the
        scope ``release`` shall not
    releases : with ``subject``, and ``member_event_time`` for the scope ``day``
    """
    subjects = releases.subject.astype("<u8")
    if pseudonym.scope == "release":
        key = hashlib.blake2b(random_key, digest_size=32, key=key, person=b"crenel-shard").digest()
        changing = np.repeat(releases.release_id, releases.tuples)
    elif pseudonym.scope == "day":
        changing = releases.member_event_time // _DAY
    else:
        changing = np.zeros(len(subjects), np.int64)
    messages = np.stack([subjects, changing.astype("<i8").view("<u8")], axis=1).tobytes()
    keyed = hashlib.blake2b(digest_size=_CODE_BYTES, key=key, person=f"crenel-{pseudonym.scope}".encode())
    found = []
    for start in range(0, len(messages), 16):
        one = keyed.copy()
        one.update(messages[start : start + 16])
        found.append(one.hexdigest())
    return found
