"""The four kinds of state of a shard, as columns and as bytes.

========  =============  =====================================  =========================================
name      key            content                                written
========  =============  =====================================  =========================================
shard     -              counters, tau's ring, random state     after each step
blocks    block number   tuples that wait, with their clusters  once, when they arrive; removed when all left
gamma     cluster id     range intervals of an open cluster     when changed
omega     release id     generalisations kept for reuse         once; removed when all of them were evicted
========  =============  =====================================  =========================================

A tuple never changes its cluster while that is open (a merged cluster is released at once), so its cluster is written
with the tuple, and a cluster need not list its members. A stored tuple still waits if its cluster is open and its
position is not below ``ShardState.oldest`` nor among ``ShardState.gone``.

The generalisations of one step are one entry of omega, under the id of the first release among them: an entry for each
would cost more than the release itself. The entry stays until the last of them was evicted: those below the oldest
that ``ShardState.scalars`` names were evicted before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state.block import TupleColumns
from state.codec import Column, array, pack, raw, unpack

VERSION = 2
"""Format version of all four. 2 added ``ShardState.noise``."""


@dataclass(frozen=True)
class NoiseState:
    """Where the sampling and perturbation of a shard stand (CASTLEGUARD).

    Attributes
    ----------
    used : words of its random stream that have been used
    sampled_out : tuples that were not let in
    observed : (2, numeric quasi-identifiers) lowest and highest value seen so far, where noise is relative to that;
        infinite where it is not
    """

    used: int
    sampled_out: int
    observed: NDArray[np.float64]


@dataclass(frozen=True)
class ShardState:
    """What a shard knows beside its tuples, clusters and generalisations.

    Attributes
    ----------
    shard : its number
    fingerprint : hash by field, of what must be the same when it is restored
    scalars : (6,) next position, next cluster id, next release id, event time reached, next block number, id of the
        oldest release that is kept for reuse (the next release's where none is)
    oldest : position of the oldest tuple that waits; the next position where none does
    gone : positions from ``oldest`` on that left alone while their block is still stored
    ring : (loss_window,) losses that tau averages
    ring_used, ring_next : how many of them count, and which is overwritten next
    lower, upper : (numeric quasi-identifiers,) declared bounds or the range observed so far
    key : (8,) words of the random stream's key
    key_used : words of the stream that have been used
    totals, loss_total, delays : counters, as in ``anonymity.castle.arrays``; delays as (bucket, count) pairs
    rejected : (reasons,) rows that were not let in
    noise : None where there is neither sampling nor perturbation
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
    noise: NoiseState | None = None

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
        if self.noise is not None:
            columns["noise_at"] = np.array([self.noise.used, self.noise.sampled_out], np.uint64)
            columns["noise_observed"] = self.noise.observed
        return pack("shard", VERSION, columns)

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> ShardState:
        """Read a blob; raises ``state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("shard", blob, newest=VERSION, where=where)
        used, following = array(columns, "ring_at")
        noise = None
        if "noise_at" in columns:
            words, sampled_out = array(columns, "noise_at").tolist()
            noise = NoiseState(words, sampled_out, array(columns, "noise_observed"))
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
            noise=noise,
        )


@dataclass(frozen=True, kw_only=True)
class Buffered(TupleColumns):
    """Tuples of one block that waited when it had been placed.

    Attributes
    ----------
    position : (tuples,) ascending
    cluster : (tuples,) id of the cluster each was placed in
    """

    position: NDArray[np.int64]
    cluster: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        return pack("buffered", VERSION, self.written() | {"position": self.position, "cluster": self.cluster})

    @classmethod
    def from_bytes(cls, blob: bytes, members: pa.Schema, where: str = "") -> Buffered:
        """Read a blob; raises ``state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("buffered", blob, newest=VERSION, where=where)
        return cls(
            position=array(columns, "position"),
            cluster=array(columns, "cluster"),
            **cls.read(columns, members),
        )


@dataclass(frozen=True)
class Generalisations:
    """Open clusters (``gamma``) or published generalisations (``omega``), one a row.

    Attributes
    ----------
    id : (rows,) cluster or release it belongs to, ascending
    lower, upper : (rows, numeric quasi-identifiers)
    node : (rows, categorical quasi-identifiers) node in each hierarchy
    subjects : (rows,) distinct subjects behind it; 0 for an open cluster, whose members tell
    diversity : (rows, sensitive attributes) distinct values behind it; 0 for an open cluster
    """

    id: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]

    def to_bytes(self, kind: str) -> bytes:
        return pack(kind, VERSION, vars(self))

    @classmethod
    def from_bytes(cls, kind: str, blob: bytes, where: str = "") -> Generalisations:
        """Read a blob; raises ``state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack(kind, blob, newest=VERSION, where=where)
        return cls(**{f.name: array(columns, f.name) for f in fields(cls)})


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
