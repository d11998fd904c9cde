"""A new operator goes on from the state of the one that died, whatever the algorithm."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.outputs import WINDOWS
from crenel.anonymity.algorithms.suhdsa.parameters import Target
from crenel.anonymity.model.attributes import Categorical
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import END, ShardFunction
from examples.own_algorithm import InOrder
from tests.support.fakes import FakeRuntime, Harness
from tests.support.operator_stream import KEY, block, planned, with_terms

MEASURED = ("milliseconds", "repairs_per_second")
NEAREST_PARAMETERS = Nearest(Delay(40, 30_000, jitter=0.25), reuse_limit=1000)


def of_labels(made: AnonymizationPlan) -> AnonymizationPlan:
    """Return the same plan without numeric quasi-identifiers, which OLA does not take."""
    policy = made.context.policy
    labels = {name: each for name, each in policy.quasi_identifiers.items() if isinstance(each, Categorical)}
    return with_terms(made, policy=dataclasses.replace(policy, quasi_identifiers=labels))


LOGS = frozenset({"repairs"})

PLANS = {
    "castle": with_terms(planned(Castle(Delay(event_time=30_000), reuse_limit=50)), logs=LOGS),
    "nearest": with_terms(planned(NEAREST_PARAMETERS), logs=LOGS),
    "priced": with_terms(planned(Nearest(Delay(40, 30_000), isolation_price=0.55)), logs=LOGS),
    "lasting": with_terms(planned(NEAREST_PARAMETERS), privacy=Privacy(3, 2, persons=Persons("lasting")), logs=LOGS),
    # Three values of three: hardly a group has them, so most must be repaired.
    "window": with_terms(
        planned(Suhdsa(tuples=20, event_time=15_000, target=Target(3, dwell=0), delay=Delay(50))),
        privacy=Privacy(3, 3),
    ),
    "mondrian": planned(Mondrian(Window(40, 15_000))),
    "ola": of_labels(planned(Ola(Window(40, 15_000)))),
    "in order": planned(InOrder(20)),
}


@pytest.mark.parametrize("algorithm", PLANS)
def test_a_new_function_goes_on_from_the_state_of_the_one_that_died(algorithm: str) -> None:
    plan = PLANS[algorithm]
    whole, runtime, parts = Harness(ShardFunction(plan)), FakeRuntime(), []
    for first in range(0, 240, 12):
        tuples = block(first, 12)
        if plan.context.policy.numeric == ():
            tuples = dataclasses.replace(tuples, numeric=np.empty((12, 0)))
        parts.append(Harness(ShardFunction(plan), runtime))
        for harness in (whole, parts[-1]):
            harness.element(KEY, tuples.to_bytes())
            harness.advance(first * 1000)
    parts.append(Harness(ShardFunction(plan), runtime))
    for harness in (whole, parts[-1]):
        harness.advance(END)

    assert len(whole.main) > 3
    assert ("repairs" in whole.side) == (algorithm in ("castle", "nearest", "priced", "lasting", "window"))
    assert [release for part in parts for release in part.main] == whole.main
    assert parts[-1].side["summary"] == whole.side["summary"]
    for side in whole.side.keys() - {"summary"}:
        assert [entry for part in parts for entry in unmeasured(part, side)] == unmeasured(whole, side) != []


def unmeasured(harness: Harness, side: str) -> list[list[Any]]:
    """Return the records of a side output, without measurements of a clock."""
    clock = [i for i, name in enumerate(WINDOWS.columns) if name in MEASURED] if side == "windows" else []
    return [[value for i, value in enumerate(record) if i not in clock] for record in harness.side.get(side, [])]
