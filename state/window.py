"""The two kinds of state of a shard of windows, as columns and as bytes.

========  =============  ===========================================  =========================================
name      key            content                                      written
========  =============  ===========================================  =========================================
window    -              counters, what was carried, random state     after each step
blocks    block number   tuples that waited when they had come        once, when they arrive; removed when all left
========  =============  ===========================================  =========================================

A stored tuple still waits if it came since the last window closed, so that its position is not below
``WindowState.first``, or if its position is among ``WindowState.carried``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state.block import TupleColumns
from state.codec import array, pack, raw, unpack

VERSION = 1


@dataclass(frozen=True)
class WindowState:
    """What a shard knows beside its tuples.

    Attributes
    ----------
    shard : its number
    fingerprint : hash by field, of what must be the same when it is restored
    scalars : (10,) next position, next release id, next window, event time reached, window size, target, windows since
        the target moved, most sensitive values in a window, whether the size grows, windows judged since it moved
    next_block : number of the next stored block
    first : position from which on nothing has left
    carried : positions below it of tuples that wait, ascending
    reason : (carried,) why each was not released, a position in ``anonymity.policy.SUPPRESSIONS``
    control : (5,) smoothed entropy, normalised entropy at which the target was set, sums of loss and delay since the
        size moved, cost before that; -1 where there is none yet
    lower, upper : (numeric quasi-identifiers,) declared bounds or the range observed so far
    key : (8,) words of the random stream's key
    key_used : words of the stream that have been used
    totals, loss_total, delays : counters, as in ``anonymity.window.arrays``; delays as (bucket, count) pairs
    rejected : (reasons,) rows that were not let in
    """

    shard: int
    fingerprint: dict[str, str]
    scalars: NDArray[np.int64]
    next_block: int
    first: int
    carried: NDArray[np.int64]
    reason: NDArray[np.int8]
    control: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    key: NDArray[np.uint64]
    key_used: int
    totals: NDArray[np.int64]
    loss_total: float
    delays: NDArray[np.int64]
    rejected: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        columns = {name: column for name, column in vars(self).items() if isinstance(column, np.ndarray)}
        return pack(
            "window",
            VERSION,
            columns
            | {
                "numbers": np.array([self.shard, self.next_block, self.first], np.int64),
                "fingerprint": json.dumps(self.fingerprint, sort_keys=True).encode(),
                "key_used": np.array([self.key_used], np.uint64),
                "loss_total": np.array([self.loss_total]),
            },
        )

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> WindowState:
        """Read a blob; raises ``state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("window", blob, newest=VERSION, where=where)
        shard, next_block, first = array(columns, "numbers").tolist()
        return cls(
            shard=shard,
            fingerprint=json.loads(raw(columns, "fingerprint")),
            scalars=array(columns, "scalars"),
            next_block=next_block,
            first=first,
            carried=array(columns, "carried"),
            reason=array(columns, "reason"),
            control=array(columns, "control"),
            lower=array(columns, "lower"),
            upper=array(columns, "upper"),
            key=array(columns, "key"),
            key_used=int(array(columns, "key_used")[0]),
            totals=array(columns, "totals"),
            loss_total=float(array(columns, "loss_total")[0]),
            delays=array(columns, "delays"),
            rejected=array(columns, "rejected"),
        )


@dataclass(frozen=True, kw_only=True)
class Held(TupleColumns):
    """Tuples of one block that waited when it had been placed.

    Attributes
    ----------
    position : (tuples,) ascending
    """

    position: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        return pack("held", VERSION, self.written() | {"position": self.position})

    @classmethod
    def from_bytes(cls, blob: bytes, members: pa.Schema, where: str = "") -> Held:
        """Read a blob; raises ``state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack("held", blob, newest=VERSION, where=where)
        return cls(position=array(columns, "position"), **cls.read(columns, members))
