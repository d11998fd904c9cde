"""Noised columns of the source: which types they may have, the grid that each gets, and what is refused."""

from __future__ import annotations

import pytest

from crenel.anonymity.model.attributes import Noised, Numeric
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import NoiseWithinRelease, Privacy
from crenel.jobs.pipeline.layout import Layout
from tests.support.layouts import layout_of


def of(sql: str, domain: tuple[float, float] = (0, 100), step: float | None = None) -> Layout:
    policy = Policy({"age": Numeric((0, 120))}, noised={"height": Noised(domain, step)})
    privacy = Privacy(2, noise_within_release=NoiseWithinRelease(1))
    return layout_of(policy, {"age": "INT", "height": sql}, "job.yaml", privacy=privacy)


@pytest.mark.parametrize("sql", ["TINYINT", "SMALLINT NOT NULL", "INT", "BIGINT"])
def test_whole_numbers_have_a_grid_of_ones_and_keep_their_type(sql: str) -> None:
    found = of(sql)
    assert [attribute.step for attribute in found.plan.policy.noised.values()] == [1]
    assert [attribute.step for attribute in found.plan.policy.numeric] == [None]
    assert found.plan.noised[0].form == "integer"
    assert found.sinks["released"][-1].sql_type == sql.partition(" ")[0]


@pytest.mark.parametrize("sql", ["FLOAT", "DOUBLE NOT NULL"])
def test_other_numbers_have_the_grid_that_is_given_and_keep_their_type(sql: str) -> None:
    found = of(sql, step=0.5)
    assert [attribute.step for attribute in found.plan.policy.noised.values()] == [0.5]
    assert (found.plan.noised[0].form, found.plan.noised[0].is_float32) == ("number", sql == "FLOAT")
    assert found.sinks["released"][-1].sql_type == sql.partition(" ")[0]


@pytest.mark.parametrize(
    ("sql", "domain", "step", "problem"),
    [
        (
            "DOUBLE",
            (0, 100),
            None,
            ".step: is missing; privacy.noise_within_release draws noise on a grid, and a column of",
        ),
        ("INT", (0, 100), 0.5, ".step: is not a whole number, and the column's type is INT"),
        ("INT", (0.2, 0.9), None, ".step: is wider than the domain"),
        ("TINYINT", (0, 128), None, ".domain: reaches beyond the column's type, TINYINT; give one within -128 and 127"),
        ("DECIMAL(5, 2)", (0, 100), 0.01, ": has the type DECIMAL(5, 2); a noised one is of whole numbers, FLOAT or"),
        ("STRING", (0, 100), 1, ": has the type STRING; a noised one is of whole numbers, FLOAT or DOUBLE; convert it"),
    ],
)
def test_what_does_not_fit_the_column_is_told_by_field(
    sql: str, domain: tuple[float, float], step: float | None, problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        of(sql, domain, step)
    (found,) = error.value.problems
    assert found.startswith(f"policy.noised.height{problem}")
