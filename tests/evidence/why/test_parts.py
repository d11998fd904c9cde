"""Categories and ranges that are suppressed above their share, and that nothing else is told of them."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.sample import Sample
from crenel.evidence.why.parts import above_their_share
from crenel.operators.column_types import parse
from crenel.operators.plan import AnonymizationPlan
from crenel.state.block import NO_TIME, Block
from tests.support.example_counts import FEW

TREE = from_paths([(f"v{i}", f"g{i // 3}", "*") for i in range(8)] + [("alone", "only", "*")])
COUNT = 4000
TYPES = {"age": parse("INT")}


def sample_of(*, age: np.ndarray, leaf: np.ndarray, subject: np.ndarray | None = None, declared: bool = True) -> Sample:  # type: ignore[type-arg]
    policy = Policy(
        {"age": Numeric((18.0, 90.0) if declared else None), "area": Categorical(TREE)},
        subject=None if subject is None else "person",
    )
    block = Block(
        shard=0,
        numeric=age.astype(np.float64).reshape(-1, 1),
        categorical=leaf.astype(np.int32).reshape(-1, 1),
        subject=None if subject is None else subject.astype(np.uint64),
        sensitive=np.zeros((len(age), 0), np.uint64),
        event_time=np.full(len(age), NO_TIME),
        members=pa.record_batch([], schema=pa.schema([])),
    )
    algorithm = Castle(Delay(50))
    plan = AnonymizationPlan(ShardContext(policy, Privacy(2), algorithm, block.members.schema), types=TYPES)
    return Sample.of_blocks(policy, [block], plan=plan)


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    random = np.random.default_rng(seed)
    return random.integers(18, 91, COUNT), random.integers(0, TREE.leaves, COUNT)


def test_what_is_suppressed_more_often_is_named_by_its_group_and_its_range() -> None:
    age, leaf = drawn(1)
    suppressed = ((leaf == 4) | (age < 25)) & (np.arange(COUNT) % 2 == 0)
    parts = above_their_share(sample_of(age=age, leaf=leaf), suppressed, 10, 20)
    assert {part.label for part in parts if part.column == "area"} == {"g1"}
    ranges = [part.label for part in parts if part.column == "age"]
    assert ranges
    assert all(float(re.findall(r"\d+", label)[0]) < 26 for label in ranges)


@FEW
@given(
    seed=st.integers(0, 99),
    k=st.sampled_from((2, 7, 40)),
    where=st.integers(0, TREE.leaves - 1),
    share=st.sampled_from((0.02, 0.3, 1.0)),
    declared=st.booleans(),
)
def test_no_single_value_and_fewer_than_k_persons_are_told(
    seed: int, k: int, where: int, share: float, declared: bool
) -> None:
    age, leaf = drawn(seed)
    person = np.random.default_rng(seed).integers(0, 300, COUNT)
    suppressed = ((leaf == where) | (age > 70)) & (np.random.default_rng(seed + 1).random(COUNT) < share)
    sample = sample_of(age=age, leaf=leaf, subject=person, declared=declared)
    for part in above_their_share(sample, suppressed, k, 50):
        assert part.tuples % k == part.suppressed % k == 0
        if part.column == "area":
            node = TREE.labels.index(part.label)
            assert TREE.first[node] < TREE.last[node]
            inside = (leaf >= TREE.first[node]) & (leaf <= TREE.last[node])
        else:
            ends = [float(end) for end in re.findall(r"\d+", part.label)]
            below, above = part.label.startswith("below"), part.label.endswith("above")
            lower = -np.inf if below else ends[0]
            upper = np.inf if above or part.label.endswith("]") else ends[-1]
            assert declared or below or above or len(ends) == 2
            assert upper - lower >= 2
            inside = (age >= lower) & (age < upper)
        assert part.tuples <= inside.sum() < part.tuples + k
        assert part.suppressed <= (inside & suppressed).sum() < part.suppressed + k
        assert len(np.unique(person[inside & suppressed])) >= k


def test_one_person_who_comes_often_is_not_told() -> None:
    age, leaf = drawn(2)
    person = np.arange(COUNT)
    suppressed = leaf == 4
    person[suppressed] = 0
    assert above_their_share(sample_of(age=age, leaf=leaf, subject=person), suppressed, 5, 20) == []
