"""Data of the operators beside their shards: rejected records, hash chains, requests to forget, and reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import array, pack, raw, readable, unpack

_REJECTED_VERSION = 1


def rejected_to_bytes(counts: NDArray[np.int64]) -> bytes:
    """Return a blob of (reasons,) records by position in ``crenel.anonymity.model.outcomes.REJECTIONS``."""
    return pack("rejected", _REJECTED_VERSION, {"counts": counts})


def rejected_from_bytes(blob: bytes, reasons: int, where: str = "") -> NDArray[np.int64]:
    """Return (reasons,) records; raise ``crenel.state.codec.StateError`` where the blob is damaged or unknown."""
    _, columns = unpack("rejected", blob, newest=_REJECTED_VERSION, where=where)
    with readable(f"rejected state of {where}"):
        counts = np.zeros(reasons, np.int64)
        stored = array(columns, "counts")
        counts[: len(stored)] = stored
        return counts


@dataclass(frozen=True)
class ChainState:
    """The end of a shard's hash chain, written with each step that releases tuples.

    Attributes
    ----------
    head : hash of the last row, 32 bytes
    following : id of the next release
    start : number of the start that wrote the last row, from 0, among starts of the shard with releases; -1 before the
        first row
    run : identity of the run
    """

    VERSION: ClassVar = 1

    head: bytes
    following: int
    start: int
    run: str

    def to_bytes(self) -> bytes:
        numbers = np.array([self.following, self.start], np.int64)
        return pack("chain", self.VERSION, {"head": self.head, "numbers": numbers, "run": self.run.encode()})

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> ChainState:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("chain", blob, newest=cls.VERSION, where=where)
        with readable(f"chain state of {where}"):
            following, start = array(columns, "numbers").tolist()
            return cls(raw(columns, "head"), following, start, raw(columns, "run").decode("ascii"))


@dataclass(frozen=True)
class Forget:
    """A request to forget one person, on its way to a shard; transient, never stored.

    Attributes
    ----------
    subject : keyed hash, as in ``crenel.state.block.TupleColumns.subject``
    code : code of the person in the record of the erasure; does not reveal the hash
    """

    VERSION: ClassVar = 1

    subject: np.uint64
    code: str

    def to_bytes(self) -> bytes:
        subject = np.array([self.subject], np.uint64)
        return pack("forget", self.VERSION, {"subject": subject, "code": self.code.encode()})

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> Forget:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("forget", blob, newest=cls.VERSION, where=where)
        with readable(f"forget request of {where}"):
            return cls(np.uint64(array(columns, "subject")[0]), raw(columns, "code").decode("ascii"))


@dataclass(frozen=True)
class Refusal:
    """The refusal of stored state by an admission, on its way to the operator's output; transient, never stored.

    Attributes
    ----------
    why : as of ``crenel.operators.signed_errors.ErrorSigner.report``
    """

    VERSION: ClassVar = 1

    why: str

    def to_bytes(self) -> bytes:
        return pack("refusal", self.VERSION, {"why": self.why.encode()})

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> Refusal:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("refusal", blob, newest=cls.VERSION, where=where)
        with readable(f"refusal of {where}"):
            return cls(raw(columns, "why").decode())


@dataclass(frozen=True)
class Report:
    """A report of an admission to a shard (``crenel.anonymity.algorithm.Admission.report``); transient, never stored.

    Attributes
    ----------
    admission : number of the admission
    amounts : counts and progress by name
    """

    VERSION: ClassVar = 1

    admission: int
    amounts: Mapping[str, int]

    def to_bytes(self) -> bytes:
        admission = np.array([self.admission], np.int64)
        return pack(
            "report", self.VERSION, {"admission": admission, "amounts": json.dumps(dict(self.amounts)).encode()}
        )

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> Report:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("report", blob, newest=cls.VERSION, where=where)
        with readable(f"report of {where}"):
            return cls(int(array(columns, "admission")[0]), json.loads(raw(columns, "amounts")))
