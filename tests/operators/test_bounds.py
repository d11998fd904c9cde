"""Published ends of intervals stay in the type of their column."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from crenel.anonymity.algorithms.castle.algorithm import CASTLE, CastleParameters
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.privacy import SamplingAndNoise
from crenel.jobs.pipeline.encoder_arguments import extremes
from crenel.jobs.pipeline.sql_types import parse
from crenel.operators.bounds import integer_bounds, within
from crenel.operators.shards.function import END, ShardFunction
from tests.support.fakes import Harness
from tests.support.operator_stream import KEY, TREE, block, planned


@pytest.mark.parametrize(
    ("sql", "least", "most"),
    [
        ("TINYINT", -128, 127),
        ("SMALLINT", -(2**15), 2**15 - 1),
        ("INT", -(2**31), 2**31 - 1),
        ("BIGINT", -(2**63), 2**63 - 1),
    ],
)
def test_ends_of_integers_stop_where_their_type_does(sql: str, least: int, most: int) -> None:
    lower, upper = np.array([-1e300, 3.0, float(least)]), np.array([3.0, 1e300, float(most)])
    low, high = integer_bounds(*within(lower, upper, extremes(parse(sql))))
    assert low == [least, 3, least]
    assert high == [3, most, most]


def test_ends_of_decimals_and_floats_stop_where_their_type_does() -> None:
    for sql, most in (("DECIMAL(4, 2)", 99.99), ("FLOAT", 3.4028234663852886e38)):
        lower, upper = within(np.array([-1e300, 1.5]), np.array([1e300, 1.5]), extremes(parse(sql)))
        assert (lower.tolist(), upper.tolist()) == ([-most, 1.5], [most, 1.5])
    assert within(np.array([-1e300]), np.array([1e300]), None)[1].tolist() == [1e300]


def test_noise_over_an_observed_range_never_turns_an_interval_around() -> None:
    # Flink's CAST to TINYINT converts a number as numpy does.
    plan = planned(CASTLE, CastleParameters(20))
    observed = (Numeric("age", None, 1.0), Categorical("group", TREE))
    terms = dataclasses.replace(
        plan.context,
        policy=dataclasses.replace(plan.context.policy, quasi_identifiers=observed),
        sampling_and_noise=SamplingAndNoise(1.0, 0.5, observed_range=True),
    )
    plan = dataclasses.replace(plan, context=terms, extremes={"age": (-128, 127)})

    def ends(bounded: bool) -> list[tuple[int, int]]:
        one = plan if bounded else dataclasses.replace(plan, extremes={})
        harness = Harness(ShardFunction(one))
        harness.element(KEY, block(0, 300).to_bytes())
        harness.advance(END)
        cast = np.array([record[8:10] for record in harness.main]).astype(np.int8)
        return [(int(low), int(high)) for low, high in cast]

    assert any(low > high for low, high in ends(bounded=False))
    found = ends(bounded=True)
    assert found
    assert all(low <= high for low, high in found)
    assert math.isclose(min(low for low, _ in found), -128)
