"""State of a CASTLE shard in four kinds of entries, as columns and as bytes.

========  =============  =====================================  =============================================
name      key            content                                written
========  =============  =====================================  =============================================
shard     -              counters, tau's ring, random state     after each step
blocks    block number   buffered tuples, with their clusters   once, on arrival; removed when all departed
gamma     cluster id     range intervals of an open cluster     when changed
omega     release id     generalizations kept for reuse         once; removed when all of them were evicted
========  =============  =====================================  =============================================

A tuple never changes its cluster while the cluster is open (a merged cluster is released at once). Therefore the
cluster is written with the tuple, and a cluster need not list its members. A stored tuple is still buffered if its
cluster is open and its position is at least ``CastleState.oldest`` and not in ``CastleState.gone``.

The generalizations of one step form one entry of omega, under the id of their first release, because one entry each
would cost more than the release itself. The entry stays until its last generalization is evicted.
``CastleState.numbers`` names the oldest reusable release; older ones count as evicted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.state.block import TupleColumns
from crenel.state.codec import Column, array, pack, raw, readable, unpack

VERSION = 3
"""Format version of all four kinds.

2 added ``CastleState.noise``. 3 counts suppressed tuples by reason, records the inventory of entries, and measures
l-diversity by ``diversity`` instead of distinct values; the operator counts rejected records.
"""


@dataclass(frozen=True)
class NoiseState:
    """State of a shard's sampling and perturbation (CASTLEGUARD).

    Attributes
    ----------
    used : number of words used from its random stream
    sampled_out : tuples that sampling did not admit
    observed : (2, numeric quasi-identifiers) minimum and maximum so far, where noise is relative to them; otherwise
        infinite
    """

    used: int
    sampled_out: int
    observed: NDArray[np.float64]


@dataclass(frozen=True)
class CastleState:
    """State of a shard without its tuples, clusters and generalizations.

    Attributes
    ----------
    shard : number of the shard
    fingerprint : hashes of the fields that a restore must not change, by field
    numbers : next position, next cluster, next release, next block, and the oldest reusable release (the next release
        where there is none)
    oldest : position of the oldest buffered tuple; the next position where there is none
    gone : positions from ``oldest`` on of stored tuples that departed without the rest of their cluster
    ring : (loss_window,) losses that tau averages
    ring_used, ring_next : number of valid losses, and index of the next one to overwrite
    lower, upper : (numeric quasi-identifiers,) declared bounds or the range observed so far
    key : (8,) words of the random stream's key
    key_used : number of words used from the stream
    released, longest, merges, splits, loss : totals so far, as in ``CastleCounters``
    suppressed : tuples by reason
    kinds : (kinds,) releases by kind
    delays : (pairs, 2) bucket of the histogram, and tuples in it
    noise : None without sampling and perturbation
    promised : parameters of further privacy models under which the reusable generalizations were released, by name
    entries : count and digest of the stored entries by kind; None in versions without an inventory
    linked, forgotten : tuples as in ``Counters``; stored where they are not 0
    rejected : (reasons,) rejected records, in versions that counted them here
    version : format version of the blob
    """

    shard: int
    fingerprint: dict[str, str]
    numbers: NDArray[np.int64]
    oldest: int
    gone: NDArray[np.int64]
    ring: NDArray[np.float64]
    ring_used: int
    ring_next: int
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    key: NDArray[np.uint64]
    key_used: int
    released: int
    longest: int
    merges: int
    splits: int
    loss: float
    suppressed: dict[str, int]
    kinds: NDArray[np.int64]
    delays: NDArray[np.int64]
    noise: NoiseState | None = None
    promised: dict[str, float] = field(default_factory=dict)
    entries: dict[str, list[int | str]] | None = None
    linked: int = 0
    forgotten: int = 0
    rejected: NDArray[np.int64] | None = None
    version: int = VERSION

    def to_bytes(self) -> bytes:
        texts = {
            "fingerprint": self.fingerprint,
            "suppressed": self.suppressed,
            "promised": self.promised,
            "entries": self.entries,
        }
        columns: dict[str, Column] = {name: json.dumps(text, sort_keys=True).encode() for name, text in texts.items()}
        columns |= {
            "shard": np.array([self.shard], np.int64),
            "numbers": self.numbers,
            "oldest": np.array([self.oldest], np.int64),
            "gone": self.gone,
            "ring": self.ring,
            "ring_at": np.array([self.ring_used, self.ring_next], np.int64),
            "lower": self.lower,
            "upper": self.upper,
            "key": self.key,
            "key_used": np.array([self.key_used], np.uint64),
            "totals": np.array([self.released, self.longest, self.merges, self.splits], np.int64),
            "kinds": self.kinds,
            "loss_total": np.array([self.loss]),
            "delays": self.delays,
        }
        if self.noise is not None:
            columns["noise_at"] = np.array([self.noise.used, self.noise.sampled_out], np.uint64)
            columns["noise_observed"] = self.noise.observed
        if self.linked:
            columns["linked"] = np.array([self.linked], np.int64)
        if self.forgotten:
            columns["forgotten"] = np.array([self.forgotten], np.int64)
        return pack("shard", VERSION, columns)

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> CastleState:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        version, columns = unpack("shard", blob, newest=VERSION, where=where)
        with readable(f"shard state of {where}"):
            used, following = array(columns, "ring_at").tolist()
            noise = None
            if "noise_at" in columns:
                words, sampled_out = array(columns, "noise_at").tolist()
                noise = NoiseState(words, sampled_out, array(columns, "noise_observed"))
            counted = _counted_before_3(columns) if version < 3 else _counted(columns)
            return cls(
                shard=int(array(columns, "shard")[0]),
                fingerprint=json.loads(raw(columns, "fingerprint")),
                oldest=int(array(columns, "oldest")[0]),
                gone=array(columns, "gone"),
                ring=array(columns, "ring"),
                ring_used=used,
                ring_next=following,
                lower=array(columns, "lower"),
                upper=array(columns, "upper"),
                key=array(columns, "key"),
                key_used=int(array(columns, "key_used")[0]),
                loss=float(array(columns, "loss_total")[0]),
                delays=array(columns, "delays"),
                noise=noise,
                version=version,
                linked=int(array(columns, "linked")[0]) if "linked" in columns else 0,
                forgotten=int(array(columns, "forgotten")[0]) if "forgotten" in columns else 0,
                **counted,
            )


def _counted(columns: dict[str, Column]) -> dict[str, Any]:
    released, longest, merges, splits = array(columns, "totals").tolist()
    return {
        "numbers": array(columns, "numbers"),
        "released": released,
        "longest": longest,
        "merges": merges,
        "splits": splits,
        "kinds": array(columns, "kinds"),
        **{name: json.loads(raw(columns, name)) for name in ("suppressed", "promised", "entries")},
    }


def _counted_before_3(columns: dict[str, Column]) -> dict[str, Any]:
    # These versions kept the shard's event time among the numbers; it was that of the tuple farthest ahead.
    scalars = array(columns, "scalars")
    released, merges, splits, longest, *others = array(columns, "totals").tolist()
    return {
        "numbers": scalars[[0, 1, 2, 4, 5]],
        "released": released,
        "longest": longest,
        "merges": merges,
        "splits": splits,
        "suppressed": dict(zip(("outlier", "too_few_subjects", "too_little_diversity"), others[:3], strict=True)),
        "kinds": np.array(others[3:], np.int64),
        "rejected": array(columns, "rejected"),
    }


@dataclass(frozen=True, kw_only=True)
class Buffered(TupleColumns):
    """Tuples of one block that were buffered when the block was stored.

    Attributes
    ----------
    position : (tuples,) ascending
    cluster : (tuples,) id of each tuple's cluster
    """

    position: NDArray[np.int64]
    cluster: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        return pack("buffered", VERSION, self.written() | {"position": self.position, "cluster": self.cluster})

    @classmethod
    def from_bytes(cls, blob: bytes, members: pa.Schema, where: str = "") -> Buffered:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("buffered", blob, newest=VERSION, where=where)
        with readable(f"buffered state of {where}"):
            return cls(
                position=array(columns, "position"),
                cluster=array(columns, "cluster"),
                **cls.read(columns, members),
            )


@dataclass(frozen=True)
class Generalizations:
    """Open clusters (``gamma``) or published generalizations (``omega``), one per row.

    Attributes
    ----------
    id : (rows,) id of the cluster or release, ascending
    lower, upper : (rows, numeric quasi-identifiers) interval ends
    node : (rows, categorical quasi-identifiers) node in each hierarchy
    subjects : (rows,) distinct subjects; 0 for an open cluster, whose members are stored
    diversity : (rows, sensitive attributes) l-diversity (distinct values before version 3); 0 for an open cluster
    span : (rows, 2, noised attributes) minimum and maximum original values; stored where there are noised attributes
    """

    id: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    span: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2, 0)))

    def to_bytes(self, kind: str) -> bytes:
        columns = dict(vars(self))
        if not self.span.size:
            del columns["span"]
        return pack(kind, VERSION, columns)

    @classmethod
    def from_bytes(cls, kind: str, blob: bytes, where: str = "") -> Generalizations:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack(kind, blob, newest=VERSION, where=where)
        found = {f.name: array(columns, f.name) for f in fields(cls) if f.name in columns or f.name != "span"}
        found.setdefault("span", np.zeros((len(found["id"]), 2, 0)))
        return cls(**found)
