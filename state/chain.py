"""Stored state of a shard's hash chain, written with each step that releases tuples."""

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
    following : id of the next release
    start : number of the start that wrote the last row, from 0, among starts of the shard with releases
    """

    head: bytes
    following: int
    start: int

    def to_bytes(self) -> bytes:
        return pack("chain", VERSION, {"head": self.head, "numbers": np.array([self.following, self.start], np.int64)})

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> ChainState:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("chain", blob, newest=VERSION, where=where)
        with readable(f"chain state of {where}"):
            following, start = array(columns, "numbers").tolist()
            return cls(raw(columns, "head"), following, start)
