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

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.state.block import BufferedTuples
from crenel.state.codec import Column, array, pack, unpack
from crenel.state.shard import COUNTERS, MEMBERS, ShardState, StateColumn, arrays, numbers, texts

VERSION = 1
"""Format version of all four kinds."""


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


class _NoiseColumns(StateColumn):
    """The two columns of ``CastleState.noise``, stored where there is noise."""

    def written(self, state: Any) -> dict[str, Column]:
        noise: NoiseState | None = state.noise
        if noise is None:
            return {}
        numbers = np.array([noise.used, noise.sampled_out], np.uint64)
        return {"noise_at": numbers, "noise_observed": noise.observed}

    def read(self, columns: Mapping[str, Column]) -> dict[str, Any]:
        if "noise_at" not in columns:
            return {}
        used, sampled_out = array(columns, "noise_at").tolist()
        return {"noise": NoiseState(used, sampled_out, array(columns, "noise_observed"))}


@dataclass(frozen=True, kw_only=True)
class CastleState(ShardState):
    """State of a shard without its tuples, clusters and generalizations.

    Attributes
    ----------
    numbers : next position, next cluster, next release, next block, and the oldest reusable release (the next release
        where there is none)
    oldest : position of the oldest buffered tuple; the next position where there is none
    gone : positions from ``oldest`` on of stored tuples that departed without the rest of their cluster
    ring : (loss_window,) losses that tau averages
    ring_used, ring_next : number of valid losses, and index of the next one to overwrite
    merges, splits : totals so far, as in ``CastleCounters``
    noise : None without sampling and perturbation
    model_parameters : parameters of further privacy models under which the reusable generalizations were released, by
        name
    """

    KIND: ClassVar[str] = "shard"
    VERSION: ClassVar[int] = VERSION
    COLUMNS: ClassVar[tuple[StateColumn, ...]] = (
        *texts("fingerprint", "suppressed", "model_parameters", "entries"),
        numbers("shard"),
        *arrays("numbers"),
        numbers("oldest"),
        *arrays("gone", "ring"),
        numbers("ring_at", "ring_used", "ring_next"),
        *arrays("lower", "upper", "key"),
        numbers("key_used", form="u8"),
        numbers("totals", "released", "longest_delay", "merges", "splits"),
        *arrays("kinds"),
        numbers("loss_total", "loss_sum", form="f8"),
        *arrays("delays"),
        _NoiseColumns("noise", "array", ("noise",)),
        *COUNTERS,
        *MEMBERS,
    )

    oldest: int
    gone: NDArray[np.int64]
    ring: NDArray[np.float64]
    ring_used: int
    ring_next: int
    merges: int
    splits: int
    noise: NoiseState | None = None
    model_parameters: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClusteredTuples(BufferedTuples):
    """Tuples of one block that were buffered when the block was stored.

    Attributes
    ----------
    cluster : (tuples,) id of each tuple's cluster
    """

    KIND: ClassVar[str] = "clustered"
    VERSION: ClassVar[int] = VERSION

    cluster: NDArray[np.int64]


@dataclass(frozen=True)
class Generalizations:
    """Open clusters (``gamma``) or published generalizations (``omega``), one per row.

    Attributes
    ----------
    id : (rows,) id of the cluster or release, ascending
    lower, upper : (rows, numeric quasi-identifiers) interval ends
    node : (rows, categorical quasi-identifiers) node in each hierarchy
    subjects : (rows,) distinct subjects; 0 for an open cluster, whose members are stored
    diversity : (rows, sensitive attributes) l-diversity; 0 for an open cluster
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
        fields_read = {f.name: array(columns, f.name) for f in fields(cls) if f.name in columns or f.name != "span"}
        fields_read.setdefault("span", np.zeros((len(fields_read["id"]), 2, 0)))
        return cls(**fields_read)
