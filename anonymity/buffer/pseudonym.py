"""Pseudonyms: codes that link the records of one person without naming the person.

A code is a keyed BLAKE2b hash of 128 bits. Its input is the keyed hash of the person, as stored in state, and the
pseudonym's scope: nothing, the UTC day of the record's event time, or the release. The code's key is derived from the
subject key with a BLAKE2b personalization of its own. A reader of state and output therefore cannot link a code to a
stored hash. A holder of the subject key can compute the code of any person.

The hash input never changes, so that codes of earlier runs can be found again.
"""

from __future__ import annotations

import hashlib

import numpy as np

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.policy import Pseudonym

_CODE_BYTES = 16
_DAY = 86_400_000


def codes(pseudonym: Pseudonym, key: bytes, random_key: bytes, releases: Releases) -> list[str]:
    """Return a code of 32 hexadecimal digits for each member of the releases of one shard, in their order.

    Parameters
    ----------
    key : ``crenel.anonymity.model.secret.SubjectKey.pseudonym_key``
    random_key : 32 bytes unique to this shard and run. Release numbers start at 0 in each shard, and codes of the scope
        ``release`` must not repeat
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
