"""Columns of few values: what is published has the column's type, contains its records, and never wraps around."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crenel

NARROW: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, -127, -1, 0, 120, 126, 127]),
    "uint8": (pa.uint8(), [0, 1, 100, 240, 251, 254, 255]),
    "int16": (pa.int16(), [-(2**15), -1, 0, 2**15 - 2, 2**15 - 1]),
    "uint16": (pa.uint16(), [0, 3, 65_000, 65_530, 2**16 - 1]),
    "int32": (pa.int32(), [-(2**31), 0, 3, 2**31 - 1]),
    "uint32": (pa.uint32(), [0, 3, 2**32 - 9, 2**32 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**53 + 1, 2**53 + 3, 2**63 - 1]),
    "float16": (pa.float16(), [np.float16(value) for value in (-65504, 0.1, 1.1, 2048, 65472, 65504)]),
    "float32": (pa.float32(), [-3.4028234663852886e38, 0.1, 1.1, 16777217.0, 3.4028234663852886e38]),
    "few digits": (pa.decimal128(3, 1), [Decimal(text) for text in ("-99.9", "0.1", "1.2", "99.8", "99.9")]),
    "fractions": (pa.decimal128(2, 2), [Decimal(text) for text in ("-0.99", "0.01", "0.02", "0.99")]),
    "hundreds": (pa.decimal128(3, -2), [Decimal(text) for text in ("-99900", "100", "99800", "99900")]),
    "days": (pa.date32(), [-719_162, -1, 0, 2_932_896]),
    "seconds": (pa.timestamp("s"), [-62_135_596_800, -1, 0, 1, 253_402_300_799]),
    "milliseconds": (pa.timestamp("ms", "UTC"), [-62_135_596_800_000, -1, 0, 253_402_300_799_999]),
}
DAY = 86_400_000

ALGORITHMS: dict[str, crenel.Algorithm] = {
    "castle": crenel.Castle(crenel.Delay(tuples=8)),
    "nearest": crenel.Nearest(crenel.Delay(tuples=8)),
    "suhdsa": crenel.Suhdsa(tuples=20),
    "mondrian": crenel.Mondrian(),
}


def comparable(column: Any) -> list[Any]:
    """Return values of a column, times as whole numbers, because Python has no year 10,000."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return list(column.to_pylist())


def settings(algorithm: crenel.Algorithm, number: crenel.Numeric, k: int = 3) -> crenel.Settings:
    policy = crenel.Policy(quasi_identifiers={"q": number}, passthrough=["id"])
    return crenel.Settings(policy=policy, privacy=crenel.Privacy(k=k), algorithm=algorithm, seed=1)


def table(kind: pa.DataType, values: list[Any]) -> pa.Table:
    rows = [values[i % len(values)] for i in range(40)]
    return pa.table({"q": pa.array(rows, kind), "id": range(40)})


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ends_on_a_grid_stay_in_the_type_and_contain_the_records(algorithm: str, name: str) -> None:
    kind, values = NARROW[name]
    data = table(kind, values)
    for ends in (None, DAY) if pa.types.is_temporal(kind) else (None, 10, 1000):
        made = settings(ALGORITHMS[algorithm], crenel.Numeric(ends=ends))
        result = crenel.anonymize(data, made)
        assert result.released.num_rows > 30
        assert {result.released.schema.field(f"q_{end}").type for end in ("min", "max")} == {kind}
        low, high = (comparable(result.released[f"q_{end}"]) for end in ("min", "max"))
        own = comparable(data["q"].take(result.released["id"]))
        assert all(least <= value <= most for least, value, most in zip(low, own, high, strict=True))
        assert crenel.verify(result, made).outcome == "holds"


LIMITS = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "uint16": (0, 65_535),
    "uint32": (0, 2**32 - 1),
    "float16": (-65504, 65504),
    "few digits": (-99.9, 99.9),
    "hundreds": (-99_900, 99_900),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_domain_beyond_the_type_is_refused_and_its_limits_are_published(name: str) -> None:
    kind, values = NARROW[name]
    least, most = LIMITS[name]
    full = crenel.Castle(crenel.Delay(tuples=8), suppression="generalize")
    result = crenel.anonymize(table(kind, values), settings(full, crenel.Numeric((least, most)), k=50))
    assert {(float(low), float(high)) for low, high in zip(*ends(result), strict=True)} == {(least, most)}
    for domain in ((least - 1, most), (least, most + 1)):
        for made in (settings(full, crenel.Numeric(domain)), noised(domain)):
            if kind in (pa.decimal128(3, 1), pa.decimal128(3, -2)) and made.policy.noised:
                continue  # a noised column is no DECIMAL
            with pytest.raises(
                crenel.ConfigError, match=r"domain: reaches beyond the column's type.*CAST it to a wider"
            ):
                crenel.anonymize(table(kind, values), made)


def ends(result: crenel.Result) -> tuple[list[Any], list[Any]]:
    return result.released["q_min"].to_pylist(), result.released["q_max"].to_pylist()


def noised(domain: tuple[float, float]) -> crenel.Settings:
    return crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"id": crenel.Numeric((0, 40))}, noised={"q": crenel.Noised(domain, 1)}),
        privacy=crenel.Privacy(k=3, noise_within_release=crenel.NoiseWithinRelease(epsilon=0.1)),
        algorithm=ALGORITHMS["nearest"],
        seed=1,
    )


@pytest.mark.parametrize("name", ["int8", "uint8", "uint16", "float16"])
def test_noised_numbers_stay_in_the_type(name: str) -> None:
    kind, values = NARROW[name]
    least, most = LIMITS[name]
    result = crenel.anonymize(table(kind, values), noised(LIMITS[name]))
    assert result.released.schema.field("q").type == kind
    found = [float(value) for value in result.released["q"].to_pylist()]
    assert len(found) > 30
    assert all(least <= value <= most for value in found)


@pytest.mark.parametrize("name", ["uint8", "float16", "few digits"])
@pytest.mark.parametrize("publish", ["mean", "median"])
def test_a_representative_of_few_values_is_a_float64(name: str, publish: Any) -> None:
    kind, values = NARROW[name]
    result = crenel.anonymize(table(kind, values), settings(ALGORITHMS["nearest"], crenel.Numeric(publish=publish)))
    assert result.released.schema.field("q").type == pa.float64()
    low, high = float(min(values)), float(max(values))
    assert all(low <= value <= high for value in result.released["q"].to_pylist())


def test_a_time_before_1970_is_rounded_down_to_its_seconds() -> None:
    kind, values = pa.timestamp("s"), [-1, -2, -4]
    result = crenel.anonymize(
        table(kind, values), settings(ALGORITHMS["mondrian"], crenel.Numeric(publish="mean"), k=40)
    )
    assert set(comparable(result.released["q"])) == {-3}  # the mean is -2.325


def test_times_beyond_the_year_9999_are_rejected() -> None:
    for kind, far in ((pa.date32(), 2_932_897), (pa.timestamp("s"), 2**60), (pa.timestamp("s"), -(2**60))):
        result = crenel.anonymize(table(kind, [0, 1, 2, far]), settings(ALGORITHMS["nearest"], crenel.Numeric()))
        assert result.rejected["reason"].to_pylist() == ["outside_domain"] * 10
        assert result.released.num_rows == 30
