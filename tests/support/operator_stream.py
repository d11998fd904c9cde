"""A small job and its stream, for operators in a fake runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.operators.column_types import parse
from crenel.operators.encode.columns import Read
from crenel.operators.plan import AnonymizationPlan
from crenel.state.block import Block, Rejected
from tests.support.fakes import Harness

KEY = 77
MEMBERS = pa.schema([("illness", pa.string()), ("visit", pa.int64())])
TREE = from_paths([("a", "ab", "*"), ("b", "ab", "*"), ("c", "cd", "*"), ("d", "cd", "*")])


def planned(algorithm: Algorithm) -> AnonymizationPlan:
    """Return the plan of a job with this algorithm."""
    policy = Policy(
        {"age": Numeric((0, 100), 1), "group": Categorical(TREE)},
        sensitive=("illness",),
        passthrough=("visit",),
        subject="person",
        event_time="at",
    )
    return AnonymizationPlan(
        context=ShardContext(policy, Privacy(3, 2), algorithm, MEMBERS, fingerprint={"policy": "one"}),
        seed=7,
        types={"age": parse("INT")},
        quasi_identifiers=(Read("age", "number", 0), Read("group", "text", 1)),
        sensitive=(Read("illness", "text", 2),),
        subject=Read("person", "text", 3),
        event_time=Read("at", "integer", 4),
    )


def with_terms(made: AnonymizationPlan, **changed: Any) -> AnonymizationPlan:
    """Return the same plan under other terms."""
    return replace(made, context=replace(made.context, **changed))


def block(first: int, count: int, shard: int = 0, rejected: Rejected | None = None) -> Block:
    """Tuples ``first`` to ``first + count - 1`` of a stream; ``visit`` tells which is which."""
    numbers = np.arange(first, first + count)
    random = np.random.default_rng(first)
    illness = [("flu", "cold", "gout")[i] for i in random.integers(0, 3, count)]
    return Block(
        shard=shard,
        numeric=random.integers(0, 100, (count, 1)).astype(float),
        categorical=random.integers(0, 4, (count, 1)).astype(np.int32),
        subject=(numbers % 37).astype(np.uint64),
        sensitive=np.array([[ord(name[0])] for name in illness], np.uint64).reshape(-1, 1),
        event_time=numbers * 1000,
        members=pa.record_batch([pa.array(illness, pa.string()), pa.array(numbers)], schema=MEMBERS),
        rejected=rejected or Rejected.none(),
    )


def members(release: list[Any]) -> list[tuple[Any, ...]]:
    """Return the values of each member: illness, visit and the pseudonym, if there is one."""
    return list(zip(*(column for column in release if isinstance(column, list)), strict=True))


def visits(harness: Harness) -> list[int]:
    """Return the released tuples."""
    return [visit for release in harness.main for _, visit, *_ in members(release)]


def left(harness: Harness) -> list[int]:
    """Return the released and suppressed tuples, where all are of one shard."""
    return sorted(visits(harness) + withheld(harness))


def withheld(harness: Harness) -> list[int]:
    """Positions of suppressed tuples."""
    return [position for _, _, positions, _ in harness.side.get("suppressed", []) for position in positions]
