"""Validation of stored arrays for compiled code, which does not check bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.release_buffer import DELAY_BUCKETS
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.policy import Policy
from crenel.state.block import TupleColumns


def require(holds: bool, what: str) -> None:
    """Raise ``ValueError`` with the message ``what`` where a condition does not hold."""
    if not holds:
        raise ValueError(what)


def require_tuples(tuples: TupleColumns, position: NDArray[np.int64], policy: Policy) -> None:
    """Raise ``ValueError`` where tuples do not fit a policy, or ``position``, (tuples,) from 0, does not rise."""
    count = len(tuples)
    shapes: dict[str, tuple[NDArray[Any], tuple[int, ...], type[np.generic]]] = {
        "numeric": (tuples.numeric, (count, len(policy.numeric)), np.float64),
        "categorical": (tuples.categorical, (count, len(policy.categorical)), np.int32),
        "sensitive": (tuples.sensitive, (count, sum(policy.widths)), np.uint64),
        "event_time": (tuples.event_time, (count,), np.int64),
        "position": (position, (count,), np.int64),
    }
    if policy.subject is not None:
        subject = np.zeros(0, np.uint64) if tuples.subject is None else tuples.subject
        shapes["subject"] = (subject, (count,), np.uint64)
    for name, (column, shape, kind) in shapes.items():
        require(column.shape == shape and column.dtype == kind, name)
    require(count > 0 and position[0] >= 0 and bool((np.diff(position) > 0).all()), "position")
    require(tuples.members.num_rows == count or not tuples.members.num_columns, "members")
    tuples.members.validate(full=True)
    require(bool(np.isfinite(tuples.numeric).all()), "numeric")
    leaves = np.array([attribute.hierarchy.leaves for attribute in policy.categorical], np.int64)
    require(bool(((tuples.categorical >= 0) & (tuples.categorical < leaves)).all()), "categorical")


def require_boxes(
    lower: NDArray[np.float64], upper: NDArray[np.float64], node: NDArray[np.int32], policy: Policy
) -> None:
    """Raise ``ValueError`` where generalizations do not fit a policy."""
    require(lower.shape == upper.shape == (len(node), len(policy.numeric)), "intervals")
    require(bool(np.isfinite(lower).all() and np.isfinite(upper).all() and (lower <= upper).all()), "intervals")
    require(node.shape == (len(node), len(policy.categorical)), "nodes")
    nodes = np.array([len(attribute.hierarchy.labels) for attribute in policy.categorical], np.int64)
    require(bool(((node >= 0) & (node < nodes)).all()), "nodes")


def require_counts(suppressed: Mapping[str, int], kinds: NDArray[np.int64], delays: NDArray[np.int64]) -> None:
    """Raise ``ValueError`` where lifetime counts are invalid: by reason, by kind, or of the delay histogram."""
    counted = isinstance(suppressed, dict) and all(
        isinstance(amount, int) and 0 <= amount < 2**62 for amount in suppressed.values()
    )
    require(counted and len(kinds) <= len(KINDS) and kinds.ndim == 1 and kinds.dtype == np.int64, "counts")
    require(delays.ndim == 2 and delays.shape[1] == 2 and delays.dtype == np.int64, "delays")
    require(bool(((delays[:, 0] >= 0) & (delays[:, 0] < DELAY_BUCKETS)).all()), "delays")
