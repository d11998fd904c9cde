"""Frozen plan of a job's anonymizer, shipped to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.model.secret import NO_KEY, SubjectKey
from crenel.operators.shards.chain import ChainPlan


@dataclass(frozen=True)
class OperatorPlan:
    """Plan of one job's anonymizer.

    Attributes
    ----------
    algorithm : the algorithm
    context : policy, privacy models and parameters
    seed : fixes every random choice; None: drawn from the operating system at a shard's first tuple
    integers : names of the numeric quasi-identifiers that are published as integers
    encoded : names of the columns that encode reads, indexed by ``crenel.state.block.Rejected.column``; None stands for
        no single column
    numbers : number of each shard, by its Flink key
    extremes : as of ``crenel.operators.output_columns.Generalization``
    subject_key : the key from which pseudonyms are derived
    chain : of the audit log; None where it has none
    encoders : number of parallel encoders
    lines : names of the published columns, where the operator writes published records as JSON; None where it returns
        their values
    """

    algorithm: Algorithm
    context: ShardContext
    seed: int | None
    integers: frozenset[str]
    encoded: tuple[str | None, ...]
    numbers: Mapping[int, int] = field(default_factory=dict)
    extremes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    subject_key: SubjectKey = NO_KEY
    chain: ChainPlan | None = None
    encoders: int = 1
    lines: tuple[str, ...] | None = None

    @property
    def members(self) -> pa.Schema:
        """Names and types of the published columns with a value per member; the pseudonym comes last."""
        pseudonym = self.context.policy.pseudonym
        return (
            self.context.members
            if pseudonym is None
            else self.context.members.append(pa.field(pseudonym.column, pa.string()))
        )

    @property
    def keys(self) -> dict[int, int]:
        """The Flink key of each shard, by its number."""
        return {number: key for key, number in self.numbers.items()}

    @property
    def representative(self) -> bool:
        """Whether a number is published as one representative value of its class, and not as an interval."""
        return self.algorithm.representative(self.context.parameters)
