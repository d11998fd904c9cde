"""Input of a replay: a sample of a stream in memory, and the settings to replay it under."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.model.attributes import ABSENT
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.operators.encode.sharding import divider
from crenel.operators.plan import AnonymizationPlan, by_row
from crenel.state.block import NO_TIME, Block, Rejected, TupleColumns


@dataclass(frozen=True)
class Sample:
    """Tuples of a stream in order of arrival, and the settings needed to publish them.

    ``Sample.of_blocks(policy, blocks)`` makes one from the blocks of encode, which suffices for most uses.

    Attributes
    ----------
    policy : of the encoding, completed by the columns of the source
    tuples : all tuples; ``members`` is named and ordered as ``policy.members``
    rejected : rows that were read with them and rejected
    lag : milliseconds, 0 or more, of the watermark behind the newest event time
    plan : of the encoding; None where the tuples were made otherwise
    """

    policy: Policy
    tuples: TupleColumns
    rejected: Rejected = field(default_factory=Rejected.none)
    lag: int = 0
    plan: AnonymizationPlan | None = None

    @classmethod
    def of_blocks(cls, policy: Policy, blocks: Iterable[Block], **known: Any) -> Sample:
        """Join blocks of any shards, in their order; ``known`` are further attributes.

        Raises
        ------
        ValueError
            There is no block.
        """
        joined = list(blocks)
        if not joined:
            raise ValueError("a sample is made of one block at least")
        columns: dict[str, Any] = {}
        for name in (f.name for f in fields(TupleColumns)):
            parts = [getattr(block, name) for block in joined]
            if name == "members":
                table = pa.Table.from_batches(parts).combine_chunks()
                columns[name] = table.to_batches()[0] if len(table) else parts[0]
            else:
                columns[name] = None if parts[0] is None else np.concatenate(parts)
        return cls(policy, TupleColumns(**columns), _joined([block.rejected for block in joined]), **known)

    def __len__(self) -> int:
        return len(self.tuples)

    def first(self, rows: int) -> Sample:
        """Return the sample of the first tuples alone."""
        if rows >= len(self):
            return self
        values = {f.name: getattr(self.tuples, f.name) for f in fields(TupleColumns)}
        members = values.pop("members").slice(0, rows)
        columns: dict[str, Any] = {name: None if column is None else column[:rows] for name, column in values.items()}
        return replace(self, tuples=TupleColumns(**columns, members=members))

    @property
    def integers(self) -> frozenset[str]:
        """Numeric quasi-identifiers that are published as integers."""
        return frozenset() if self.plan is None else self.plan.generalization.integers

    @property
    def numbers(self) -> NDArray[np.float64]:
        """(tuples, numeric quasi-identifiers) values, NaN where a number is missing."""
        numbers = self.tuples.numeric.astype(np.float64)
        for number, presence in self.policy.presence:
            numbers[self.tuples.categorical[:, presence] == ABSENT, number] = np.nan
        return numbers

    @cached_property
    def clock(self) -> NDArray[np.int64]:
        """(tuples,) newest event time after each arrival, epoch milliseconds; ``NO_TIME`` before the first."""
        return np.maximum.accumulate(self.tuples.event_time)

    @cached_property
    def watermark(self) -> NDArray[np.int64]:
        """(tuples,) watermark after each arrival, epoch milliseconds; ``NO_TIME`` before the first."""
        return np.where(self.clock == NO_TIME, NO_TIME, self.clock - self.lag)

    @property
    def milliseconds(self) -> int:
        """Event time from the first tuple to the newest, in milliseconds; 0 where there is none."""
        timed = self.clock[self.clock != NO_TIME]
        return int(timed[-1] - timed[0]) if len(timed) else 0

    def plan_under(self, setting: ReplaySetting) -> AnonymizationPlan:
        """Return the plan of a replay, whose shards hold the row of each tuple as their last published column."""
        context = ShardContext(
            policy=self.policy,
            privacy=setting.privacy,
            algorithm=setting.algorithm,
            members=self.tuples.members.schema,
            sampling_and_noise=setting.sampling_and_noise,
            remembers=False,
            admissions=setting.algorithm.admissions(setting.shards.count),
            logs=setting.logs,
        )
        context = by_row(context, self.policy.sensitive)
        plan = self.plan or AnonymizationPlan(context)
        return replace(plan, context=context, shards=setting.shards, seed=setting.seed, in_force="")

    def shards(self, shards: Shards) -> NDArray[np.int64]:
        """Return (tuples,) the shard of each, as a job would assign it.

        Without a subject in the policy, a job divides rows by all their values, and a sample by all but pass-through
        values. The shards are as even, but not the same.
        """
        if shards.count == 1:
            return np.zeros(len(self), np.int64)
        return divider(self.policy, shards)(_Divided(self.tuples))


@dataclass(frozen=True)
class ReplaySetting:
    """The settings of a replay, as a configuration states them.

    Attributes
    ----------
    algorithm : to run, with its settings
    privacy : privacy models; a reference distribution has its codes (``crenel.operators.plan.plan_of``)
    shards : division of the sample
    seed : determines every random choice; a job with the same seed makes the same choices
    sampling_and_noise : sampling and noise; None: neither
    logs : as of ``crenel.anonymity.algorithm.ShardContext``
    """

    algorithm: Algorithm
    privacy: Privacy
    shards: Shards = field(default_factory=Shards)
    seed: int = 0
    sampling_and_noise: SamplingAndNoise | None = None
    logs: frozenset[str] = frozenset()


class _Divided:
    """Columns of tuples that determine their shards."""

    def __init__(self, tuples: TupleColumns) -> None:
        self.numeric, self.categorical = tuples.numeric, tuples.categorical
        self.subject, self.sensitive = tuples.subject, tuples.sensitive
        self.passed = np.zeros((len(tuples), 0), np.uint64)


def _joined(parts: list[Rejected]) -> Rejected:
    return Rejected(
        np.concatenate([part.column for part in parts]),
        np.concatenate([part.reason for part in parts]),
        np.concatenate([part.event_time for part in parts]),
        tuple(reference for part in parts for reference in part.reference),
    )
