"""State of a shard of a batch algorithm: a blob of its own, and the buffered tuples (``Held``).

A block is stored under the position of its first tuple that was buffered after the block's arrival. It contains no
tuple that has departed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import Column, array, pack, raw, readable, unpack
from crenel.state.window import Held

__all__ = ["BatchState", "Held"]

VERSION = 2
"""Format version of the blob.

2 added ``BatchState.counted``, and stores each block separately; version 1 stored all buffered tuples as one block
under 0.
"""


@dataclass(frozen=True)
class BatchState:
    """State of a shard without its tuples; names as in ``crenel.state.castle.CastleState``.

    Attributes
    ----------
    numbers : next position, next release
    counted : counters of the algorithm itself, by name
    linked, forgotten : stored where they are not 0
    """

    shard: int
    fingerprint: dict[str, str]
    numbers: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    key: NDArray[np.uint64]
    key_used: int
    released: int
    longest: int
    loss: float
    suppressed: dict[str, int]
    kinds: NDArray[np.int64]
    delays: NDArray[np.int64]
    entries: dict[str, list[int | str]] | None = None
    counted: dict[str, int] = field(default_factory=dict)
    linked: int = 0
    forgotten: int = 0

    def to_bytes(self) -> bytes:
        columns: dict[str, Column] = {name: x for name, x in vars(self).items() if isinstance(x, np.ndarray)}
        for name in ("fingerprint", "suppressed", "entries", "counted"):
            columns[name] = json.dumps(getattr(self, name), sort_keys=True).encode()
        columns["counts"] = np.array([self.shard, self.released, self.longest], np.int64)
        if self.linked:
            columns["linked"] = np.array([self.linked], np.int64)
        if self.forgotten:
            columns["forgotten"] = np.array([self.forgotten], np.int64)
        columns["key_used"] = np.array([self.key_used], np.uint64)
        columns["loss"] = np.array([self.loss])
        return pack("batch", VERSION, columns)

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> BatchState:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        version, columns = unpack("batch", blob, newest=VERSION, where=where)
        with readable(f"batch state of {where}"):
            shard, released, longest = array(columns, "counts").tolist()
            return cls(
                shard=shard,
                released=released,
                longest=longest,
                key_used=int(array(columns, "key_used")[0]),
                loss=float(array(columns, "loss")[0]),
                fingerprint=json.loads(raw(columns, "fingerprint")),
                suppressed=json.loads(raw(columns, "suppressed")),
                entries=json.loads(raw(columns, "entries")),
                counted=json.loads(raw(columns, "counted")) if version > 1 else {},
                numbers=array(columns, "numbers"),
                lower=array(columns, "lower"),
                upper=array(columns, "upper"),
                key=array(columns, "key"),
                kinds=array(columns, "kinds"),
                delays=array(columns, "delays"),
                linked=int(array(columns, "linked")[0]) if "linked" in columns else 0,
                forgotten=int(array(columns, "forgotten")[0]) if "forgotten" in columns else 0,
            )
