"""A privacy model that is one file of the tests, in all that Crenel does with its own, without a change elsewhere."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import crenel
from crenel.anonymity.algorithm import ShardContext
from crenel.evidence.verify import formulas
from crenel.evidence.verify.verdict import BROKEN, HOLDS, UNCHECKED, Check
from crenel.operators.shards.metrics import counter_names
from tests.extension_points.own_model import AT_LEAST

GIVEN = {"values": 2, "persons": 2}
SETTINGS = crenel.Settings(
    policy=crenel.Policy(quasi_identifiers={"x": crenel.Numeric((0, 100))}, sensitive=["illness"]),
    privacy=crenel.Privacy(k=4, at_least=GIVEN),
    algorithm=crenel.Mondrian(crenel.Window(tuples=20)),
    seed=1,
    extensions=["tests.extension_points.own_model"],
)
# Of the last window only one person has another value.
VISITS = pa.table({"x": [i * 37 % 101 for i in range(100)], "illness": [*"aabab" * 16, "b", *"a" * 19]})


@cache
def result() -> crenel.Result:
    return crenel.anonymize(VISITS, SETTINGS)


def checked(released: pa.Table) -> Check:
    verdict = crenel.verify(replace(result(), released=released), SETTINGS)
    (found,) = (check for check in verdict.checks if check.name == "at_least of illness")
    return found


def test_a_file_holds_it_by_name(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(SETTINGS.to_yaml(), encoding="utf-8")
    assert crenel.load(path).privacy == SETTINGS.privacy == crenel.Privacy(4, models={"at_least": GIVEN})
    of_one = crenel.Privacy(4, sensitive={"illness": crenel.Sensitive(at_least=GIVEN)})
    assert of_one.reasons[-1] == "too_rare:illness"
    path.write_text(SETTINGS.to_yaml().replace("persons: 2", "persons: 3"), encoding="utf-8")
    with pytest.raises(crenel.ConfigError, match=r"privacy\.at_least: must be a mapping such as .*, not values 2"):
        crenel.load(path)


def test_releases_keep_it_and_others_are_suppressed_and_counted_under_its_reason() -> None:
    found, persons = result(), defaultdict(list)
    for row in found.released.to_pylist():
        persons[row["x_min"], row["x_max"]].append(row["illness"])
    assert all(min(values.count("a"), values.count("b")) >= 2 for values in persons.values())
    assert found.summary.suppressed["too_rare"] == len(VISITS) - found.released.num_rows > 0
    assert set(found.suppressed["reason"].to_pylist()) == {"too_rare"}
    assert pc.unique(found.audit["at_least_values"]).to_pylist() == [2]
    assert pc.unique(found.audit["at_least_persons"]).to_pylist() == [2]
    policy: Any = SETTINGS.policy
    context = ShardContext(policy, SETTINGS.privacy, SETTINGS.algorithm, pa.schema([]))
    assert "suppressed_too_rare" in counter_names(SETTINGS.algorithm, context)


def test_its_formula_verifies_it() -> None:
    released = result().released
    assert checked(released).outcome == HOLDS
    first = pc.equal(released["x_min"], released["x_min"][0])
    one_value = pc.if_else(first, "a", released["illness"])
    found = checked(released.set_column(released.column_names.index("illness"), "illness", one_value))
    assert found.outcome == BROKEN
    assert "does not keep at_least of illness" in str(found.findings[0])


def test_without_a_formula_it_counts_as_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(formulas.FORMULAS, AT_LEAST.name)
    found = checked(result().released)
    assert (found.outcome, found.words) == (UNCHECKED, "verify has no formula of its own for this privacy model")
    assert crenel.verify(result(), SETTINGS).outcome == UNCHECKED


def test_reports_plans_and_explanations_name_it() -> None:
    page = crenel.report(result(), SETTINGS)
    assert "values 2, persons 2 of each sensitive column in every release" in page
    assert "frequency of values" in page
    assert "minimum cell size" in page
    vary = {"algorithm": ["mondrian"], "delay": [crenel.Delay(tuples=40)]}
    plan = crenel.plan(VISITS, SETTINGS, vary=vary, max_suppressed=1.0, max_delay=crenel.Delay(tuples=99))
    assert plan.settings is not None
    assert plan.settings.privacy.models == {"at_least": GIVEN}
    assert "at_least" in str(crenel.why(VISITS, SETTINGS))
