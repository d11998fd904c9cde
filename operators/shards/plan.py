"""What the operator must know of a job: plain, frozen, and shipped to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.model.secret import NO_KEY, SubjectKey
from crenel.operators.shards.chain import ChainPlan


@dataclass(frozen=True)
class OperatorPlan:
    """One job's anonymizer.

    Attributes
    ----------
    algorithm : which one works
    terms : what is promised, and how
    seed : fixes every random choice; None: drawn from the operating system when a shard first sees a tuple
    integers : names of the numeric quasi-identifiers that are published as integers
    encoded : names of the columns that encode reads, to which ``crenel.state.block.Rejected.column`` refers;
        None stands for no single one
    numbers : of each shard, by its Flink key
    extremes : the least and the largest value that a column holds, of the numeric quasi-identifiers whose noise, or
        whose rounding of ends, no domain bounds
    subject_key : the key that pseudonyms are derived from
    chain : of the audit log; None where it has none
    encoders : how many encoders work side by side
    """

    algorithm: Algorithm
    terms: ShardContext
    seed: int | None
    integers: frozenset[str]
    encoded: tuple[str | None, ...]
    numbers: Mapping[int, int] = field(default_factory=dict)
    extremes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    subject_key: SubjectKey = NO_KEY
    chain: ChainPlan | None = None
    encoders: int = 1

    @property
    def members(self) -> pa.Schema:
        """Names and types of the columns that each member of a release has of its own: the pseudonym comes last."""
        pseudonym = self.terms.policy.pseudonym
        return (
            self.terms.members
            if pseudonym is None
            else self.terms.members.append(pa.field(pseudonym.column, pa.string()))
        )

    @property
    def representative(self) -> bool:
        """Whether a number is published as one value, which stands for its group, and not as an interval."""
        return self.algorithm.representative(self.terms.parameters)
