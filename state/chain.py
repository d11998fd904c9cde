"""Where a shard's hash chain stands, as it is stored: written with each step that releases something."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crenel.state.codec import array, pack, raw, readable, unpack

VERSION = 1


@dataclass(frozen=True)
class ChainState:
    """The end of a chain.

    Attributes
    ----------
    head : hash of the last row, 32 bytes
    following : id of the release that comes next
    start : which start of the shard that released anything the last row is of, counted from 0
    """

    head: bytes
    following: int
    start: int

    def to_bytes(self) -> bytes:
        return pack("chain", VERSION, {"head": self.head, "numbers": np.array([self.following, self.start], np.int64)})

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> ChainState:
        """Read a blob; raises ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("chain", blob, newest=VERSION, where=where)
        with readable(f"chain state of {where}"):
            following, start = array(columns, "numbers").tolist()
            return cls(raw(columns, "head"), following, start)
