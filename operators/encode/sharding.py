"""Assignment of tuples to shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import SHARD_BY_SUBJECT, Policy, Shards
from crenel.operators.encode import hashing


class Divided(Protocol):
    """Columns that determine a tuple's shard, as in ``crenel.state.block.TupleColumns``.

    ``passed`` are (rows, columns) codes of noised and pass-through columns. They matter where the policy names no
    subject, so that a tuple's whole content determines its shard.
    """

    @property
    def numeric(self) -> NDArray[np.float64]: ...
    @property
    def categorical(self) -> NDArray[np.int32]: ...
    @property
    def subject(self) -> NDArray[np.uint64] | None: ...
    @property
    def sensitive(self) -> NDArray[np.uint64]: ...
    @property
    def passed(self) -> NDArray[np.uint64]: ...


Divide: TypeAlias = Callable[[Divided], NDArray[np.int64]]


def divider(policy: Policy, shards: Shards) -> Divide:
    """Return a function that assigns rows to shards, 0 to ``shards.count - 1``; arbitrarily for invalid rows.

    Raises
    ------
    PolicyError
        The setting does not define a division.
    """
    count, regions = shards.count, shards.regions
    if regions is not None:
        return lambda columns: regions.regions(columns.numeric, columns.categorical)
    if shards.by == SHARD_BY_SUBJECT:
        return lambda columns: hashing.slices(
            _whole_row(columns) if columns.subject is None else columns.subject, count
        )
    for number, numeric in enumerate(policy.numeric):
        if numeric.name == shards.by and numeric.domain is not None:
            return partial(_by_slice, number=number, domain=numeric.domain, count=count)
    for number, categorical in enumerate(policy.categorical):
        if categorical.name == shards.by:
            return partial(_by_leaf, number=number, leaves=categorical.hierarchy.leaves, count=count)
    raise PolicyError(
        f"shards.by: must be {SHARD_BY_SUBJECT!r}, a categorical quasi-identifier, or a numeric one that has a domain"
    )


def _whole_row(columns: Divided) -> NDArray[np.uint64]:
    numeric = [hashing.real_codes(column) for column in columns.numeric.T]
    categorical = [column.astype(np.uint64) for column in columns.categorical.T]
    return hashing.combined([*numeric, *categorical, *columns.sensitive.T, *columns.passed.T])


def _by_slice(columns: Divided, *, number: int, domain: tuple[float, float], count: int) -> NDArray[np.int64]:
    """Assign equal slices of a domain to shards."""
    lowest, highest = domain
    width = highest - lowest or 1.0
    share = (np.clip(np.nan_to_num(columns.numeric[:, number]), lowest, highest) - lowest) / width
    return np.minimum((share * count).astype(np.int64), count - 1)


def _by_leaf(columns: Divided, *, number: int, leaves: int, count: int) -> NDArray[np.int64]:
    """Assign neighboring leaves to shards, with equal numbers of leaves up to one."""
    return np.maximum(columns.categorical[:, number].astype(np.int64), 0) * count // leaves
