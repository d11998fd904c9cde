"""Weights of attributes in distances: what they change, and what not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import crenel
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.weights import relative_weights
from tests.support.drive import Setting, apply, columns_of
from tests.support.example_counts import FEW
from tests.support.nearest_drive import nearest_cases
from tests.support.strategies import Case, cases

TREE = from_paths([("a", "*"), ("b", "*")])
POLICY = Policy({"z": Categorical(TREE), "x": Numeric((0, 9)), "y": Numeric()})


def weighted(made: Setting, weight: float | None) -> Setting:
    of = () if weight is None else made.policy.attributes
    weights = {attribute.name: float(weight or 0) for attribute in of}
    return replace(made, algorithm=replace(made.algorithm, weights=weights))


def check_equal_weights(case: Case) -> None:
    runs = []
    for weight in (None, 1.0, 0.3):
        setting = weighted(case.setting, weight)
        shard = setting.shard()
        runs.append(columns_of([apply(setting, shard, step) for step in case.steps()]))
    assert runs[0] == runs[1] == runs[2]


@given(cases())
@FEW
def test_equal_weights_change_nothing_with_castle(case: Case) -> None:
    check_equal_weights(case)


@given(nearest_cases())
@FEW
def test_equal_weights_change_nothing_with_nearest(case: Case) -> None:
    check_equal_weights(case)


def adult(rows: int) -> pa.Table:
    """Return people as in Adult: ages, hours that hardly vary, years of education, and a class of work."""
    chance = np.random.default_rng(7)
    return pa.table(
        {
            "age": (17 + chance.gamma(2.0, 11.0, rows)).clip(17, 90).astype(np.int64),
            "hours": np.where(chance.random(rows) < 0.5, 40, chance.integers(1, 100, rows)),
            "education": chance.binomial(16, 0.6, rows),
            "work": chance.choice(["Private", "State", "Federal", "Self", "None"], rows, p=[0.7, 0.1, 0.05, 0.1, 0.05]),
        }
    )


WORK = {"State": ["Public", "*"], "Federal": ["Public", "*"], "Private": ["*"], "Self": ["*"], "None": ["*"]}
DOMAINS = {"age": (17.0, 90.0), "hours": (1.0, 99.0), "education": (0.0, 16.0)}


@pytest.mark.parametrize("algorithm", [crenel.Castle, crenel.Nearest])
@pytest.mark.parametrize("declared", [True, False])
def test_an_attribute_of_a_great_weight_loses_less(
    algorithm: type[crenel.Castle] | type[crenel.Nearest], declared: bool
) -> None:
    numbers = {name: crenel.Numeric(domain if declared else None) for name, domain in DOMAINS.items()}
    policy = crenel.Policy(quasi_identifiers={**numbers, "work": crenel.Categorical(WORK)})
    table = adult(3000)

    def generalized(**weights: float) -> dict[str, float]:
        """Return the mean width of the intervals of each number, and the share of rows without a value of work."""
        made = algorithm(crenel.Delay(tuples=300), weights=weights)
        settings = crenel.Settings(policy=policy, privacy=crenel.Privacy(k=10), algorithm=made, seed=1)
        released = crenel.anonymize(table, settings).released
        ends = {name: (released[f"{name}_min"].to_numpy(), released[f"{name}_max"].to_numpy()) for name in DOMAINS}
        widths = {name: float(np.mean(upper - lower)) for name, (lower, upper) in ends.items()}
        return {**widths, "work": float(np.mean([label not in WORK for label in released["work"].to_pylist()]))}

    plain = generalized()
    for name in plain:
        assert generalized(**{name: 20.0})[name] < 0.8 * plain[name]


def test_weights_are_relative_to_their_mean() -> None:
    numeric, categorical = relative_weights(POLICY, {"x": 4.0})
    assert numeric.tolist() == [2.0, 0.5]
    assert categorical.tolist() == [0.5]
    assert relative_weights(POLICY, dict.fromkeys("xyz", 1.7e308))[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("algorithm", [Castle, Nearest])
def test_a_weight_is_positive_and_finite(algorithm: type[Castle] | type[Nearest], weight: float) -> None:
    with pytest.raises(PolicyError, match=rf"{algorithm.name}\.weights\.x: .* above 0"):
        algorithm(Delay(1), weights={"x": weight})


@pytest.mark.parametrize("algorithm", [Castle, Nearest])
def test_a_weight_of_an_unknown_attribute_is_named(algorithm: type[Castle] | type[Nearest]) -> None:
    (problem,) = algorithm(Delay(1), weights={"wage": 2.0}).problems(POLICY, Privacy(2))
    assert problem == f"{algorithm.name}.weights.wage: must be one of x, y, z"
