"""Stored counts of rejected records by reason, kept by the operator beside its shards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import array, pack, readable, unpack

VERSION = 1


def to_bytes(counts: NDArray[np.int64]) -> bytes:
    """Return a blob of (reasons,) records by position in ``crenel.anonymity.model.outcomes.REJECTIONS``."""
    return pack("rejected", VERSION, {"counts": counts})


def from_bytes(blob: bytes, reasons: int, where: str = "") -> NDArray[np.int64]:
    """Return (reasons,) records; raise ``crenel.state.codec.StateError`` where the blob is damaged or unknown."""
    _, columns = unpack("rejected", blob, newest=VERSION, where=where)
    with readable(f"rejected state of {where}"):
        counts = np.zeros(reasons, np.int64)
        stored = array(columns, "counts")
        counts[: len(stored)] = stored
        return counts
