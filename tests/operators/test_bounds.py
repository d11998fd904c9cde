"""Published ends of intervals stay in the type of their column."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.model.privacy import SamplingAndNoise
from crenel.operators.bounds import as_written, integer_bounds, within
from crenel.operators.column_types import parse
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
    low, high = integer_bounds(*within(lower, upper, parse(sql).extremes, is_limited=False))
    assert low == [least, 3, least]
    assert high == [3, most, most]


def test_ends_of_decimals_and_floats_stop_where_their_type_does() -> None:
    for sql, most in (("DECIMAL(4, 2)", 99.99), ("FLOAT", 3.4028234663852886e38)):
        limits, ends = parse(sql).extremes, (np.array([-1e300, 1.5]), np.array([1e300, 1.5]))
        lower, upper = within(*ends, limits, is_limited=False)
        assert (lower.tolist(), upper.tolist()) == ([-most, 1.5], [most, 1.5])
        for own in (np.array([-most, 1e300]), np.array([-1e300, most])):
            with pytest.raises(InvariantError, match="does not hold a published number; nothing was emitted"):
                within(own, own, limits, is_limited=True)
        assert within(np.array([-most]), np.array([most]), limits, is_limited=True)[1].tolist() == [most]
    assert within(np.array([-1e300]), np.array([1e300]), None, is_limited=True)[1].tolist() == [1e300]


@pytest.mark.parametrize(
    ("kind", "held", "beyond"),
    [
        (pa.uint8(), [0, None, 255], [256, -1]),
        (pa.int8(), [-128, 127], [128, -129]),
        (pa.int64(), [2**63 - 1, -(2**63)], []),
        (pa.uint32(), [2**32 - 1], [2**32]),
        (pa.float16(), [-65504.0, 0.1, None], [65520.0]),
        (pa.float32(), [0.1, 3.4028234663852886e38, 1e-45], [3.5e38]),
        (pa.float64(), [0.1, 1.7e308, 5e-324, None], []),
        (pa.decimal128(3, 1), [99.9, -0.05, None], [100.0]),
        (pa.decimal128(2, 2), [0.99, 0.0], [1.0]),
        (pa.decimal128(2, -2), [9900.0, -100.0], [10_000.0]),
    ],
    ids=str,
)
def test_a_number_is_written_in_its_type_or_raises_without_its_value(
    kind: pa.DataType, held: list[float | None], beyond: list[float]
) -> None:
    numbers = pa.int64() if pa.types.is_integer(kind) else pa.float64()
    written = as_written(pa.array(held, numbers), kind)
    assert written.type == kind
    for value, found in zip(held, written.to_pylist(), strict=True):
        assert (value is None) == (found is None)
        assert value is None or float(found) == pytest.approx(value, rel=1e-3, abs=0.051)
    for value in beyond:
        with pytest.raises(InvariantError, match=r"^the type of a column does not hold a published number; nothing"):
            as_written(pa.array([*held, value], numbers), kind)


def test_noise_over_an_observed_range_never_turns_an_interval_around() -> None:
    # Flink's CAST to TINYINT converts a number as numpy does.
    plan = planned(Castle(Delay(20)))
    observed = {"age": Numeric(step=1.0), "group": Categorical(TREE)}
    terms = dataclasses.replace(
        plan.context,
        policy=dataclasses.replace(plan.context.policy, quasi_identifiers=observed),
        sampling_and_noise=SamplingAndNoise(1.0, 0.5, range="observed"),
    )
    plan = dataclasses.replace(plan, context=terms, types={"age": parse("TINYINT")})

    def ends(bounded: bool) -> list[tuple[int, int]]:
        one = plan if bounded else dataclasses.replace(plan, types={"age": parse("BIGINT")})
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
