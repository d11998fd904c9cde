"""The four kinds of state of a shard, as columns and as bytes.

========  =============  =====================================  =========================================
name      key            content                                written
========  =============  =====================================  =========================================
shard     -              counters, tau's ring, random state     after each step
blocks    block number   tuples that wait, with their clusters  once, when they arrive; removed when all left
gamma     cluster id     range intervals of an open cluster     when changed
omega     release id     a generalisation kept for reuse        once; removed when evicted
========  =============  =====================================  =========================================

A tuple never changes its cluster while that is open (a merged cluster is released at once), so its cluster is written
with the tuple, and a cluster need not list its members. A stored tuple still waits if its cluster is open and its
position is not below ``ShardState.oldest`` nor among ``ShardState.gone``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state.codec import Column, array, pack, raw, unpack

VERSION = 1


@dataclass(frozen=True)
class ShardState:
    """What a shard knows beside its tuples, clusters and generalisations.

    Attributes
    ----------
    shard : its number
    fingerprint : hash by field, of what must be the same when it is restored
    scalars : (5,) next position, next cluster id, next release id, event time reached, next block number
    oldest : position of the oldest tuple that waits; the next position where none does
    gone : positions from ``oldest`` on that left alone while their block is still stored
    ring : (loss_window,) losses that tau averages
    ring_used, ring_next : how many of them count, and which is overwritten next
    lower, upper : (numeric quasi-identifiers,) declared bounds or the range observed so far
    key : (8,) words of the random stream's key
    key_used : words of the stream that have been used
    totals, loss_total, delays : counters, as in ``anonymity.live``; delays as (bucket, count) pairs
    rejected : (reasons,) rows that were not let in
    """

    shard: int
    fingerprint: dict[str, str]
    scalars: NDArray[np.int64]
    oldest: int
    gone: NDArray[np.int64]
    ring: NDArray[np.float64]
    ring_used: int
    ring_next: int
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    key: NDArray[np.uint64]
    key_used: int
    totals: NDArray[np.int64]
    loss_total: float
    delays: NDArray[np.int64]
    rejected: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        columns: dict[str, Column] = {
            "shard": np.array([self.shard], np.int64),
            "fingerprint": json.dumps(self.fingerprint, sort_keys=True).encode(),
            "scalars": self.scalars,
            "oldest": np.array([self.oldest], np.int64),
            "gone": self.gone,
            "ring": self.ring,
            "ring_at": np.array([self.ring_used, self.ring_next], np.int64),
            "lower": self.lower,
            "upper": self.upper,
            "key": self.key,
            "key_used": np.array([self.key_used], np.uint64),
            "totals": self.totals,
            "loss_total": np.array([self.loss_total]),
            "delays": self.delays,
            "rejected": self.rejected,
        }
        return pack("shard", VERSION, columns)

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> ShardState:
        """Read a blob; raises ``state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("shard", blob, newest=VERSION, where=where)
        used, following = array(columns, "ring_at")
        return cls(
            shard=int(array(columns, "shard")[0]),
            fingerprint=json.loads(raw(columns, "fingerprint")),
            scalars=array(columns, "scalars"),
            oldest=int(array(columns, "oldest")[0]),
            gone=array(columns, "gone"),
            ring=array(columns, "ring"),
            ring_used=int(used),
            ring_next=int(following),
            lower=array(columns, "lower"),
            upper=array(columns, "upper"),
            key=array(columns, "key"),
            key_used=int(array(columns, "key_used")[0]),
            totals=array(columns, "totals"),
            loss_total=float(array(columns, "loss_total")[0]),
            delays=array(columns, "delays"),
            rejected=array(columns, "rejected"),
        )


@dataclass(frozen=True)
class Buffered:
    """Tuples of one block that waited when it had been placed.

    Attributes
    ----------
    position : (tuples,) ascending
    cluster : (tuples,) id of the cluster each was placed in
    numeric, categorical, subject, sensitive, event_time, members : as in ``state.block.Block``
    """

    position: NDArray[np.int64]
    cluster: NDArray[np.int64]
    numeric: NDArray[np.float64]
    categorical: NDArray[np.int32]
    subject: NDArray[np.uint64] | None
    sensitive: NDArray[np.uint64]
    event_time: NDArray[np.int64]
    members: pa.RecordBatch

    def to_bytes(self) -> bytes:
        columns: dict[str, Column] = {
            "position": self.position,
            "cluster": self.cluster,
            "numeric": self.numeric,
            "categorical": self.categorical,
            "sensitive": self.sensitive,
            "event_time": self.event_time,
            "members": self.members.serialize().to_pybytes(),
        }
        if self.subject is not None:
            columns["subject"] = self.subject
        return pack("buffered", VERSION, columns)

    @classmethod
    def from_bytes(cls, blob: bytes, members: pa.Schema, where: str = "") -> Buffered:
        """Read a blob; raises ``state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("buffered", blob, newest=VERSION, where=where)
        return cls(
            position=array(columns, "position"),
            cluster=array(columns, "cluster"),
            numeric=array(columns, "numeric"),
            categorical=array(columns, "categorical"),
            subject=array(columns, "subject") if "subject" in columns else None,
            sensitive=array(columns, "sensitive"),
            event_time=array(columns, "event_time"),
            members=pa.ipc.read_record_batch(pa.py_buffer(raw(columns, "members")), members),
        )


@dataclass(frozen=True)
class Generalisation:
    """An open cluster (``gamma``) or a published generalisation (``omega``).

    Attributes
    ----------
    lower, upper : (numeric quasi-identifiers,)
    node : (categorical quasi-identifiers,) node in each hierarchy
    subjects : distinct subjects behind it; 0 for an open cluster, whose members tell
    diversity : (sensitive attributes,) distinct values behind it; empty for an open cluster
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    subjects: int = 0
    diversity: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def to_bytes(self, kind: str) -> bytes:
        # A thousand may be written in a step, so they are few columns.
        columns: dict[str, Column] = {
            "ends": np.concatenate((self.lower, self.upper)),
            "node": self.node,
            "counts": np.array([self.subjects, *self.diversity], np.int64),
        }
        return pack(kind, VERSION, columns)

    @classmethod
    def from_bytes(cls, kind: str, blob: bytes, where: str = "") -> Generalisation:
        """Read a blob; raises ``state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack(kind, blob, newest=VERSION, where=where)
        ends, counts = array(columns, "ends"), array(columns, "counts")
        return cls(
            lower=ends[: len(ends) // 2],
            upper=ends[len(ends) // 2 :],
            node=array(columns, "node"),
            subjects=int(counts[0]),
            diversity=counts[1:],
        )


@dataclass(frozen=True)
class Stored:
    """Everything that is stored of one shard."""

    shard: bytes
    blocks: dict[int, bytes]
    gamma: dict[int, bytes]
    omega: dict[int, bytes]


@dataclass(frozen=True)
class Changes:
    """What must be written since the last time; None stands for an entry to remove."""

    shard: bytes
    blocks: dict[int, bytes | None]
    gamma: dict[int, bytes | None]
    omega: dict[int, bytes | None]
