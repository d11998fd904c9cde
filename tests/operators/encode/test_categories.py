"""Values of typed columns and their leaves in built hierarchies."""

from __future__ import annotations

from datetime import date
from ipaddress import IPv4Network
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crenel.anonymity.model.attributes import Categorical, Generalized, Numeric
from crenel.anonymity.model.builders.addresses import Ip
from crenel.anonymity.model.builders.builder import Builder
from crenel.anonymity.model.builders.dates import Dates
from crenel.anonymity.model.builders.mask import Mask
from crenel.anonymity.model.builders.numbers import Numbers
from crenel.anonymity.model.hierarchy import MISSING, from_paths
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.secret import NO_KEY
from crenel.operators.plan import AnonymizationPlan
from tests.support.encoding import INF, KEYS, NAN, blocks_of, encoded
from tests.support.example_counts import examples
from tests.support.layouts import encode_plan, layout_of

AGES = Numbers((0, 90), (1, 10), open=True)
SPEEDS = Numbers((0, 1), (0.1, 0.5), whole=False)
ZIPS = Mask((3, 1), length=3)
DAYS = Dates((date(2024, 1, 1), date(2024, 12, 31)), ("month", "year"))
NETWORKS = Ip((IPv4Network("10.0.0.0/16"),), (24, 16))


def plan_of(builder: Builder, sql: str, missing: Any = "reject") -> AnonymizationPlan:
    found = layout_of(Policy({"x": Categorical(builder)}, missing=missing), {"x": sql})
    return encode_plan(found, Shards(1), KEYS[:1], NO_KEY)


def labels(plan: AnonymizationPlan, values: list[Any]) -> list[str]:
    """Return the label of each value's leaf, or the reason for its rejection."""
    (attribute,) = plan.policy.categorical
    found = []
    for value in values:
        (block,) = blocks_of(plan, [{"x": value}])
        reasons = [reason for _, reason, *_ in encoded(plan, [[{"x": value}]]).rejected]
        found.append(reasons[0] if reasons else attribute.hierarchy.labels[block.categorical[0, 0]])
    return found


@pytest.mark.parametrize(
    ("builder", "sql", "values", "expected"),
    [
        (AGES, "INT", [0, 7, 90, 1000], ["0", "7", "90+", "90+"]),
        (AGES, "BIGINT NOT NULL", [89, -1], ["89", "unknown_category"]),
        (AGES, "DECIMAL(10, 2)", [7.0, 7.5], ["7", "unknown_category"]),
        (
            AGES,
            "STRING",
            ["7", " 007 ", "7.0", "9e9", "-1", "7.5", "seven", "", "NaN"],
            ["7", "7", "7", "90+", *["unknown_category"] * 2, *["bad_type"] * 3],
        ),
        (AGES, "DOUBLE", [7.0, -0.0, INF, -INF], ["7", "0", *["bad_type"] * 2]),
        (SPEEDS, "DOUBLE", [0.3, 0.7, 1.0, 1.1], ["[0.3, 0.4)", "[0.7, 0.8)", "[0.9, 1]", "unknown_category"]),
        # As float64, the FLOAT 0.7 is below 0.7, and the FLOAT 0.1 above 0.1.
        (
            SPEEDS,
            "FLOAT",
            [*(float(np.float32(value)) for value in (0.1, 0.3, 0.7, 0.9, 1.0, 1.1)), INF],
            ["[0.1, 0.2)", "[0.3, 0.4)", "[0.7, 0.8)", *["[0.9, 1]"] * 2, "unknown_category", "bad_type"],
        ),
        (ZIPS, "CHAR(3)", ["007", "7", "00a", "00*", MISSING], ["007", *["unknown_category"] * 4]),
        (DAYS, "DATE", ["2024-02-29", "2023-12-31"], ["2024-02", "unknown_category"]),
        (DAYS, "STRING", ["2024-02-29", "2024-2-9", "2024-02", ""], ["2024-02", *["unknown_category"] * 3]),
        (
            NETWORKS,
            "VARCHAR(15)",
            ["10.0.3.7", "10.1.0.0", "10.0.3.07", "::1", "x"],
            ["10.0.3.0/24", *["unknown_category"] * 4],
        ),
    ],
)
def test_values_of_a_typed_column_are_found_without_a_cast(
    builder: Builder, sql: str, values: list[Any], expected: list[str]
) -> None:
    assert labels(plan_of(builder, sql), values) == expected
    assert labels(plan_of(builder, sql, "value"), values) == expected


@pytest.mark.parametrize("sql", ["FLOAT", "DOUBLE NOT NULL"])
def test_nan_of_a_typed_column_is_missing(sql: str) -> None:
    assert labels(plan_of(SPEEDS, sql), [NAN, 1.0]) == ["missing", "[0.9, 1]"]
    assert labels(plan_of(SPEEDS, sql, "value"), [NAN, 1.0]) == [MISSING, "[0.9, 1]"]


@pytest.mark.parametrize(
    ("builder", "sql", "good", "label"),
    [
        (AGES, "INT", 7, "7"),
        (AGES, "DOUBLE", 7.0, "7"),
        (AGES, "STRING", "7", "7"),
        (DAYS, "DATE", "2024-02-29", "2024-02"),
        (NETWORKS, "STRING", "10.0.3.7", "10.0.3.0/24"),
    ],
)
def test_a_missing_value_is_rejected_or_has_its_leaf(builder: Builder, sql: str, good: Any, label: str) -> None:
    rows = [{"x": good}, {"x": None}, {"x": good}]
    outcome = encoded(plan_of(builder, sql), [rows])
    assert (len(outcome.tuples[0]), [reason for _, reason, *_ in outcome.rejected]) == (2, ["missing"])
    assert labels(plan_of(builder, sql, "value"), [good, None]) == [label, MISSING]


@pytest.mark.parametrize(
    ("builder", "sql", "expression", "form"),
    [
        (AGES, "INT", "`x`", "number"),
        (AGES, "STRING", "`x`", "text"),
        (SPEEDS, "FLOAT", "CAST(`x` AS DOUBLE)", "number"),
        (ZIPS, "INT", "CAST(`x` AS STRING)", "text"),
        (DAYS, "DATE", "CAST(`x` AS STRING)", "day"),
        (DAYS, "TIMESTAMP(6)", "CAST(`x` AS TIMESTAMP(3))", "day"),
        (DAYS, "TIMESTAMP_LTZ(3)", "CAST(`x` AS TIMESTAMP_LTZ(3))", "day"),
        (DAYS, "STRING", "`x`", "text"),
        (NETWORKS, "STRING", "`x`", "text"),
    ],
)
def test_columns_are_read_as_their_builder_takes_them(builder: Builder, sql: str, expression: str, form: str) -> None:
    found = layout_of(Policy({"x": Categorical(builder)}), {"x": sql})
    assert (found.arguments[0], found.plan.quasi_identifiers[0].form) == (expression, form)
    assert [(column.name, column.sql_type) for column in found.sinks["released"]] == [("x", "STRING")]


@given(
    st.sampled_from(
        (
            (AGES, "INT", st.one_of(st.integers(-2, 95), st.none())),
            (AGES, "STRING", st.sampled_from(("7", " 007 ", "12", "89", "9e9", "seven", "", "*", None))),
            (SPEEDS, "DOUBLE", st.sampled_from((0.0, -0.0, 0.3, 0.49, 0.5, 1.0, 1.1, NAN, None))),
            (ZIPS, "STRING", st.sampled_from(("007", "008", "100", "7", "0**", MISSING, None))),
            (DAYS, "STRING", st.sampled_from(("2024-02-29", "2024-03-01", "2024-12-31", "2023-12-31", "2024", None))),
        )
    ),
    st.integers(0, 1),
    st.sampled_from(("reject", "value")),
    st.data(),
)
@settings(max_examples=examples(60), deadline=None)
def test_a_generalized_value_is_the_label_above_its_leaf_whatever_other_records_have(
    column: tuple[Builder, str, st.SearchStrategy[Any]], level: int, missing: Any, data: st.DataObject
) -> None:
    builder, sql, one = column
    values = data.draw(st.lists(one, min_size=1, max_size=12))
    tree = from_paths(builder.paths())
    tree = tree.with_missing() if missing == "value" else tree
    policy = Policy(
        {"y": Numeric()}, sensitive=("x",), missing=missing, generalized={"x": Generalized(builder, level=level)}
    )
    plan = encode_plan(layout_of(policy, {"x": sql, "y": "INT"}), Shards(1), KEYS[:1], NO_KEY)
    # A quasi-identifier of the same hierarchy tells the leaf, and the paths of the hierarchy the label above it.
    above = {path[0]: path[level] for path in tree.paths()}
    leaves = labels(plan_of(builder, sql, missing), values)
    expected = [above.get(leaf, leaf) for leaf in leaves]
    blocks = blocks_of(plan, [{"x": value, "y": 1} for value in values])
    published = [label for block in blocks for label in block.members.column("x").to_pylist()]
    reasons = [REJECTIONS[reason] for block in blocks for reason in block.rejected.reason.tolist()]
    assert published == [label for label, leaf in zip(expected, leaves, strict=True) if leaf in above]
    assert reasons == [leaf for leaf in leaves if leaf not in above]
    codes = [code for block in blocks for code in block.sensitive[:, 0].tolist()]
    assert len(set(codes)) == len(set(published)) == len({*zip(codes, published, strict=True)})
