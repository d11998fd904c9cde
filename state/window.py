"""State of a shard of SUHDSA windows in two kinds of entries, as columns and as bytes.

========  =============  ===========================================  =========================================
name      key            content                                      written
========  =============  ===========================================  =========================================
window    -              counters, carried tuples, random state       after each step
blocks    block number   tuples buffered after their block's arrival  on arrival, and again when most have
                                                                      departed; removed when all have
========  =============  ===========================================  =========================================

A stored tuple is still buffered if it arrived since the last window closed, so that its position is at least
``WindowState.first``, or if its position is in ``WindowState.carried``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.state.block import TupleColumns
from crenel.state.codec import Column, array, pack, raw, readable, unpack

VERSION = 2
"""Format version of both kinds.

2 counts suppressed tuples by reason and records the inventory of entries; the operator counts rejected records, and the
shard's event time is no longer stored.
"""


@dataclass(frozen=True)
class WindowState:
    """State of a shard without its tuples.

    Attributes
    ----------
    shard : number of the shard
    fingerprint : hashes of the fields that a restore must not change, by field
    numbers : (4,) next position, next release, next window and next block
    first : position from which on all tuples are buffered, except forgotten ones
    carried : positions below ``first`` of buffered tuples, ascending
    reason : (carried,) position in ``reasons`` of the reason that kept each tuple from release
    reasons : ``Privacy.reasons`` when the state was stored
    controllers : (6,) window size in tuples, -1 where there is none; target; windows since the target changed; maximum
        number of sensitive values in a window; whether the size grows; windows evaluated since the size changed
    control : (5,) smoothed entropy, normalized entropy when the target was set, sums of loss and delay since the size
        changed, cost before that; -1 where there is none yet
    lower, upper : (numeric quasi-identifiers,) declared bounds or the range observed so far
    key : (8,) words of the random stream's key
    key_used : number of words used from the stream
    released, longest, merges, swaps, loss : totals so far, as in ``WindowCounters``
    suppressed : tuples by reason
    kinds : (kinds,) releases by kind
    delays : (pairs, 2) bucket of the histogram, and tuples in it
    entries : count and digest of the stored entries by kind; None in versions without an inventory
    linked, forgotten : tuples as in ``Counters``; stored where they are not 0
    gone : positions from ``first`` on of forgotten tuples; stored where there are any
    rejected : (reasons,) rejected records, in versions that counted them here
    version : format version of the blob
    """

    shard: int
    fingerprint: dict[str, str]
    numbers: NDArray[np.int64]
    first: int
    carried: NDArray[np.int64]
    reason: NDArray[np.int8]
    reasons: tuple[str, ...]
    controllers: NDArray[np.int64]
    control: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    key: NDArray[np.uint64]
    key_used: int
    released: int
    longest: int
    merges: int
    swaps: int
    loss: float
    suppressed: dict[str, int]
    kinds: NDArray[np.int64]
    delays: NDArray[np.int64]
    entries: dict[str, list[int | str]] | None = None
    linked: int = 0
    forgotten: int = 0
    gone: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rejected: NDArray[np.int64] | None = None
    version: int = VERSION

    def to_bytes(self) -> bytes:
        texts = {
            "fingerprint": self.fingerprint,
            "reasons": self.reasons,
            "suppressed": self.suppressed,
            "entries": self.entries,
        }
        columns: dict[str, Column] = {name: json.dumps(text, sort_keys=True).encode() for name, text in texts.items()}
        columns |= {
            "shard": np.array([self.shard], np.int64),
            "numbers": self.numbers,
            "first": np.array([self.first], np.int64),
            "carried": self.carried,
            "reason": self.reason,
            "controllers": self.controllers,
            "control": self.control,
            "lower": self.lower,
            "upper": self.upper,
            "key": self.key,
            "key_used": np.array([self.key_used], np.uint64),
            "totals": np.array([self.released, self.longest, self.merges, self.swaps], np.int64),
            "kinds": self.kinds,
            "loss_total": np.array([self.loss]),
            "delays": self.delays,
        }
        if self.linked:
            columns["linked"] = np.array([self.linked], np.int64)
        if self.forgotten:
            columns["forgotten"] = np.array([self.forgotten], np.int64)
        if len(self.gone):
            columns["gone"] = self.gone
        return pack("window", VERSION, columns)

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> WindowState:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        version, columns = unpack("window", blob, newest=VERSION, where=where)
        with readable(f"window state of {where}"):
            arrays: dict[str, Any] = {
                name: array(columns, name)
                for name in ("carried", "reason", "control", "lower", "upper", "key", "delays")
            }
            return cls(
                fingerprint=json.loads(raw(columns, "fingerprint")),
                key_used=int(array(columns, "key_used")[0]),
                loss=float(array(columns, "loss_total")[0]),
                version=version,
                linked=int(array(columns, "linked")[0]) if "linked" in columns else 0,
                forgotten=int(array(columns, "forgotten")[0]) if "forgotten" in columns else 0,
                gone=array(columns, "gone") if "gone" in columns else np.zeros(0, np.int64),
                **arrays,
                **(_counted_before_2(columns) if version < 2 else _counted(columns)),
            )


def _counted(columns: dict[str, Column]) -> dict[str, Any]:
    released, longest, merges, swaps = array(columns, "totals").tolist()
    return {
        "shard": int(array(columns, "shard")[0]),
        "first": int(array(columns, "first")[0]),
        "released": released,
        "longest": longest,
        "merges": merges,
        "swaps": swaps,
        **{name: array(columns, name) for name in ("numbers", "controllers", "kinds")},
        "reasons": tuple(json.loads(raw(columns, "reasons"))),
        **{name: json.loads(raw(columns, name)) for name in ("suppressed", "entries")},
    }


def _counted_before_2(columns: dict[str, Column]) -> dict[str, Any]:
    shard, next_block, first = array(columns, "numbers").tolist()
    # These versions kept the shard's event time among the scalars; it was that of the tuple farthest ahead.
    position, release, window, _, *controllers = array(columns, "scalars").tolist()
    released, merges, swaps, longest, *others = array(columns, "totals").tolist()
    reasons = ("outlier", "too_few_subjects", "too_little_diversity")
    return {
        "shard": shard,
        "numbers": np.array([position, release, window, next_block], np.int64),
        "first": first,
        "reasons": reasons,
        "controllers": np.array(controllers, np.int64),
        "released": released,
        "longest": longest,
        "merges": merges,
        "swaps": swaps,
        "suppressed": dict(zip(reasons, others[:3], strict=True)),
        "kinds": np.array(others[3:], np.int64),
        "rejected": array(columns, "rejected"),
    }


@dataclass(frozen=True, kw_only=True)
class Held(TupleColumns):
    """Tuples of one block that were buffered when the block was stored.

    Attributes
    ----------
    position : (tuples,) ascending
    """

    position: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        return pack("held", VERSION, self.written() | {"position": self.position})

    @classmethod
    def from_bytes(cls, blob: bytes, members: pa.Schema, where: str = "") -> Held:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("held", blob, newest=VERSION, where=where)
        with readable(f"held state of {where}"):
            return cls(position=array(columns, "position"), **cls.read(columns, members))
