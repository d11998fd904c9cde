"""Figures of columns and pairs against counts by hand, and the roles that follow."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import crenel
from crenel.evidence.profile.profile import ColumnProfile, Profile, form_of_type, share
from crenel.evidence.profile.roles import propose


def counted(values: list[object], k: int) -> tuple[float, float]:
    """Return the share of rows in groups of one, and of fewer than k."""
    sizes = Counter(values)
    return tuple(sum(n for n in sizes.values() if n < bound) / len(values) for bound in (2, k))  # type: ignore[return-value]


def test_figures_are_those_of_a_count_by_hand() -> None:
    random = np.random.default_rng(5)
    table = pa.table(
        {
            name: [None if value == 3 else int(value) for value in random.geometric(rate, 300)]
            for name, rate in (("a", 0.05), ("b", 0.3), ("c", 0.6))
        }
    )
    found = crenel.profile(table, k=4)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    for of in found.columns:
        values = columns[of.name]
        known = Counter(value for value in values if value is not None)
        assert (of.unique, of.small) == pytest.approx(counted(values, 4))
        assert of.distinct == len(known)
        assert of.missing == pytest.approx(values.count(None) / 300)
        assert of.unique_values == pytest.approx(sum(n == 1 for n in known.values()) / len(known))
    assert len(found.pairs) == 3
    for pair in found.pairs:
        both = list(zip(*(columns[name] for name in pair.columns), strict=True))
        assert (pair.unique, pair.small) == pytest.approx(counted(both, 4))
    assert [pair.unique for pair in found.pairs] == sorted((pair.unique for pair in found.pairs), reverse=True)


def test_a_column_is_constant_for_the_persons_whose_rows_agree() -> None:
    persons = [f"p{number}" for number in range(20) for _ in range(2)] + ["alone"]
    sex = [("f", "m")[number % 2] for number in range(20) for _ in range(2)] + ["f"]
    dose = [row % 2 if row >= 10 else 7 for row in range(40)] + [7]
    person, *others = crenel.profile(pa.table({"person": persons, "sex": sex, "dose": dose})).columns
    assert person.may_be_subject
    assert person.constant == {}
    assert [of.constant for of in others] == [{"person": 1.0}, {"person": 0.25}]


def test_data_without_rows_and_columns_without_values_have_a_profile() -> None:
    table = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    assert {of.unique for of in crenel.profile(table).columns} == {0}
    nothing, nested = crenel.profile(pa.table({"a": pa.nulls(3, pa.string()), "b": [[1], [1], [2]]})).columns
    assert (nothing.distinct, nothing.missing, nothing.unique_values) == (0, 1, 0)
    assert (nested.form, nested.distinct, nested.unique) == ("other", 2, pytest.approx(1 / 3))


def test_only_the_first_rows_are_read() -> None:
    read = []

    def batches() -> object:
        for number in range(5):
            read.append(number)
            yield pa.record_batch({"a": [number, number, number]})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    found = crenel.profile(reader, rows=4)
    assert (found.rows, found.columns[0].distinct) == (4, 2)
    assert len(read) < 5


def test_a_profile_prints_and_converts_without_a_value() -> None:
    found = crenel.profile(pa.table({"area": pa.array(["MARKED"] * 9 + ["MARKED2"]).dictionary_encode()}))
    assert "MARKED" not in str(found) + str(found.to_dict()) + repr(found)
    assert found.to_dict()["columns"][0]["unique"] == 0.1


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (["10.0.0.1", "255.255.255.0"], "ip"),
        (["10.0.0.1", "256.0.0.0"], "text"),
        (["02138", "90210"], "digits"),
        (["2138", "90210"], "whole"),
        (["1.5", "2"], "number"),
        (["2024-02-29"], "date"),
        (["2024-02-29 10:00:00", "2024-02-29T10:00Z"], "timestamp"),
        (["x"], "text"),
    ],
)
def test_the_form_of_text_is_that_of_all_values(values: list[str], form: str) -> None:
    assert crenel.profile(pa.table({"a": values})).columns[0].form == form


def test_shares_are_not_rounded_to_none_or_all() -> None:
    assert [share(of) for of in (0, 0.0001, 0.5, 0.9999, 1)] == ["0.0%", "<0.1%", "50.0%", ">99.9%", "100.0%"]


@pytest.mark.parametrize(
    ("name", "sql", "role"),
    [
        ("patientId", "STRING", "subject"),
        ("customer_number", "BIGINT", "subject"),
        ("pid", "STRING", "subject"),
        ("patient_age", "INT", "quasi_identifier"),
        ("zipcode", "STRING", "quasi_identifier"),
        ("DateOfBirth", "DATE", "quasi_identifier"),
        ("country_code", "STRING", "quasi_identifier"),
        ("visit_date", "DATE", "quasi_identifier"),
        ("created", "TIMESTAMP(3)", "event_time"),
        ("visited_ms", "BIGINT", "event_time"),
        ("birth_time", "TIMESTAMP(3)", "quasi_identifier"),
        ("diagnosis_id", "STRING", "sensitive"),
        ("income", "STRING", "sensitive"),
        ("first_name", "STRING", "drop"),
        ("patient_name", "STRING", "drop"),
        ("email", "STRING", "drop"),
        ("line", "BIGINT", "drop"),
        ("product_name", "STRING", "undecided"),
        ("clinic_id", "STRING", "undecided"),
        ("amount", "DOUBLE", "undecided"),
        ("photo", "BYTES", "undecided"),
    ],
)
def test_names_and_types_alone_give_roles(name: str, sql: str, role: str) -> None:
    (proposal,) = propose(Profile(0, 10, (ColumnProfile(name, sql, form_of_type(sql)),)))
    assert proposal.role == role
    assert proposal.reason
