"""Request to forget a person, on its way to a shard. It is transient and never stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crenel.state.codec import array, pack, raw, readable, unpack

VERSION = 1


@dataclass(frozen=True)
class Forget:
    """A request to forget one person.

    Attributes
    ----------
    subject : keyed hash, as in ``crenel.state.block.TupleColumns.subject``
    code : code of the person in the record of the erasure; does not reveal the hash
    """

    subject: np.uint64
    code: str

    def to_bytes(self) -> bytes:
        return pack("forget", VERSION, {"subject": np.array([self.subject], np.uint64), "code": self.code.encode()})

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> Forget:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("forget", blob, newest=VERSION, where=where)
        with readable(f"forget request of {where}"):
            return cls(np.uint64(array(columns, "subject")[0]), raw(columns, "code").decode("ascii"))
