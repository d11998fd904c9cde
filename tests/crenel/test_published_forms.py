"""Published forms in the library: the same classes in each form, verified, attacked and restored."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import crenel
from crenel.results import Result
from tests.crenel.stream import ALGORITHMS, settings
from tests.crenel.stream import records as visits

TOWNS = {f"t{i}": [f"land {i // 4}", "*"] for i in range(12)}


def records(rows: int = 400) -> pa.Table:
    """Return visits in some of twelve towns, the first of them most often."""
    draw = random.Random(5)
    table = visits(rows)
    areas = pa.array([f"t{min(int(draw.expovariate(0.25)), 11)}" for _ in range(rows)])
    return table.set_column(table.column_names.index("area"), "area", areas)


def formed(algorithm: str = "nearest", *, area: str = "ancestor", age: str = "interval") -> crenel.Settings:
    """Return settings with published forms, and without reuse."""
    of = settings(algorithm)
    attributes: dict[str, Any] = dict(of.policy.quasi_identifiers)
    attributes["area"] = crenel.Categorical(TOWNS, publish=area)  # type: ignore[arg-type]
    if algorithm != "ola":
        attributes["age"] = replace(attributes["age"], publish=age)
    chosen: Any = of.algorithm
    if algorithm == "castle":
        chosen = replace(chosen, reuse_limit=0)
    return replace(of, policy=replace(of.policy, quasi_identifiers=attributes), algorithm=chosen)


def broken(result: Result, of: crenel.Settings) -> set[str]:
    return {check.name for check in crenel.verify(result, of).checks if check.findings}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_forms_change_what_classes_show_and_not_the_classes(algorithm: str) -> None:
    came = records()
    plain = crenel.anonymize(came, formed(algorithm), row_numbers=True)
    of = formed(algorithm, area="set")
    listed = crenel.anonymize(came, of, row_numbers=True)
    shown = crenel.anonymize(came, formed(algorithm, area="mode", age="median"), row_numbers=True)
    assert plain.released["row"].equals(listed.released["row"])
    assert plain.released["row"].equals(shown.released["row"])
    assert listed.released.schema.field("area").type == pa.list_(pa.string())
    assert broken(listed, of) == set()
    assert broken(shown, formed(algorithm, area="mode", age="median")) == set()
    areas, begin = came["area"].to_pylist(), 0
    for release in listed.audit.to_pylist():
        rows = listed.released.slice(begin, release["tuples"])
        begin += release["tuples"]
        occurring = {areas[row] for row in rows["row"].to_pylist()}
        assert set(release["area"]) == occurring
        assert len(release["area"]) == len(occurring)
        assert all(area == release["area"] for area in rows["area"].to_pylist())
    assert begin == listed.released.num_rows
    assert plain.audit["loss"].equals(listed.audit["loss"])
    assert pc.mean(listed.audit["published_loss"]).as_py() < pc.mean(listed.audit["loss"]).as_py()
    if algorithm != "ola":
        assert shown.released.schema.names[:2] == ["age", "area"]


def changed(name: str, change: Callable[[Any], Any], table: str = "both") -> Callable[[Result], Result]:
    """Return a function that changes each value of a column in released, audit or both."""

    def apply(result: Result) -> Result:
        tables = {}
        for of in ("released", "audit") if table == "both" else (table,):
            found = getattr(result, of)
            column = pa.array([change(value) for value in found[name].to_pylist()], found.schema.field(name).type)
            tables[of] = found.set_column(found.column_names.index(name), name, column)
        return replace(result, **tables)

    return apply


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (changed("area", lambda area: area[::-1]), "twice or out of the order"),
        (changed("area", lambda area: [*area, area[-1]]), "twice or out of the order"),
        (changed("area", lambda area: ["Mars", *area[1:]]), "is no set of its hierarchy"),
        (changed("area", lambda area: ["land 0", "t11"] if len(area) > 1 else area), "is no value of its hierarchy"),
        # A value is left out: the set would then lose less than its release states.
        (changed("area", lambda area: [area[0], *area[2:]] if len(area) > 2 else area), "published_loss that its sets"),
        (changed("area", lambda area: area[:1], "released"), "no release has their generalization"),
        (changed("published_loss", lambda loss: loss + 0.5, "audit"), "published_loss that its sets"),
        (changed("published_loss", lambda loss: -1.0, "audit"), "published_loss that its sets"),
    ],
)
def test_wrong_sets_are_refused(change: Callable[[Result], Result], problem: str) -> None:
    of = formed(area="set")
    result = crenel.anonymize(records(), of)
    assert broken(result, of) == set()
    found = [finding.text for check in crenel.verify(change(result), of).checks for finding in check.findings]
    assert any(problem in text for text in found)


def test_a_set_of_more_values_than_tuples_is_refused() -> None:
    of = formed(area="set")
    result = crenel.anonymize(records(), of)
    few = changed("tuples", lambda tuples: 1, "audit")(result)
    (found,) = [check for check in crenel.verify(few, of).checks if check.name == "sets"]
    assert {finding.text for finding in found.findings} >= {
        f"'area' lists {values} values, and the release has 1 tuples" for values in (3, 4)
    }


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_sets_are_read_back_from_each_kind_of_table(kind: str) -> None:
    of = formed(area="set")
    of = replace(of, policy=replace(of.policy, passthrough=["born"]))
    table: Any = records().drop(["tests", "clinic"])
    table = table.to_pandas() if kind == "pandas" else pytest.importorskip("polars").from_arrow(table)
    assert broken(crenel.anonymize(table, of), of) == set()


def test_a_mode_that_is_no_value_is_refused() -> None:
    of = formed(area="mode")
    result = crenel.anonymize(records(), of)
    assert broken(result, of) == set()
    assert "domain" in broken(changed("area", lambda area: "land 0")(result), of)


def test_attacks_know_sets_and_find_fewer_fitting_persons() -> None:
    came, found = records(), {}
    for form in ("ancestor", "set"):
        of = formed(area=form)
        found[form] = crenel.attack(came, of, result=crenel.anonymize(came, of))
    linking = {form: next(each.success for each in of.attacks if each.name == "linking") for form, of in found.items()}
    assert linking["set"] >= linking["ancestor"] > 0
    identified = [each for each in found["set"].attacks if each.name == "re-identification at 1"]
    assert all(each.success <= 1 / 4 + 1e-9 for each in identified)


def test_a_report_states_the_loss_of_sets_beside_that_of_ancestors() -> None:
    of = formed(area="set", age="mean")
    result = crenel.anonymize(records(), of)
    page = crenel.report(result, of, name="visits", data=records())
    tuples = result.audit["tuples"].to_numpy()
    published, ancestors = (
        float((result.audit[name].to_numpy() * tuples).sum() / tuples.sum()) for name in ("published_loss", "loss")
    )
    assert f"The published sets lose {published:.1%}" in page
    assert f"would lose {ancestors:.1%}" in page
    assert "sets of values: area" in page
    assert "a value for the group: age" in page


def test_why_explains_the_losses_that_records_are_grouped_by() -> None:
    found = [crenel.why(records(), of).remedies.losses for of in (formed(), formed(area="set", age="mean"))]
    assert found[0] == found[1]
    assert None not in found[1].values()


def test_a_stream_goes_on_with_another_form() -> None:
    first, second = records().slice(0, 200), records().slice(200)
    states = []
    for form in ("ancestor", "set"):
        with crenel.open_stream(formed(area="ancestor")) as stream:
            stream.push(first)
            kept = stream.snapshot()
        with crenel.open_stream(formed(area=form), snapshot=kept) as stream:
            states.append(Result.joined([stream.push(second), stream.finish()]))
    ancestor, listed = states
    assert ancestor.released["diagnosis"].equals(listed.released["diagnosis"])
    assert listed.released.schema.field("area").type == pa.list_(pa.string())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"algorithm": crenel.Nearest(crenel.Delay(tuples=60), reuse_limit=9)}, "a reused generalization has none"),
        ({"privacy": crenel.Privacy(k=4, persons=crenel.Persons(guarantee="lasting"))}, "persons.guarantee: lasting"),
        ({"algorithm": crenel.Suhdsa(tuples=40, output="representative")}, "a representative of its own"),
    ],
)
def test_forms_that_one_class_alone_has_are_refused_with_others(changes: dict[str, Any], problem: str) -> None:
    for of in (formed(area="set"), formed(age="mean")):
        with pytest.raises(crenel.ConfigError) as error:
            replace(of, **changes)
        assert problem in str(error.value)


def test_a_representative_is_refused_with_full_generalization_and_a_set_is_not() -> None:
    nearest = crenel.Nearest(crenel.Delay(tuples=60), suppression="generalize")
    with pytest.raises(crenel.ConfigError, match="a fully generalized row has none"):
        replace(formed(area="mode"), algorithm=nearest)
    of = replace(formed(area="set"), algorithm=nearest)
    result = crenel.anonymize(records(3), of)  # fewer than k
    assert broken(result, of) == set()
    assert result.released["area"].to_pylist() == [["*"]] * 3
    assert result.audit["published_loss"].to_pylist() == [1.0] * 3


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        (lambda: crenel.Numeric((18, 100), publish="set"), "'interval', 'mean' or 'median'"),  # type: ignore[arg-type]
        (
            lambda: crenel.Numeric((18, 100), ends=5, publish="mean"),
            "a representative is one number, which has no ends",
        ),
        (lambda: crenel.Categorical({"a": ["*"]}, publish="mean"), "'ancestor', 'set' or 'mode'"),  # type: ignore[arg-type]
    ],
)
def test_a_form_must_fit_its_type(attribute: Callable[[], Any], problem: str) -> None:
    with pytest.raises(crenel.ConfigError) as error:
        attribute()
    assert problem in str(error.value)


def test_settings_with_forms_survive_their_file(tmp_path: Path) -> None:
    of, file = formed(age="median"), tmp_path / "area.csv"
    file.write_text("t0;land;*\nt1;land;*\n", encoding="utf-8")
    attributes = {**of.policy.quasi_identifiers, "area": crenel.Categorical(file, publish="set")}
    of = replace(of, policy=replace(of.policy, quasi_identifiers=attributes))
    written = of.to_yaml()
    assert "publish: set" in written
    (tmp_path / "settings.yaml").write_text(written, encoding="utf-8")
    read = crenel.load(tmp_path / "settings.yaml").policy.quasi_identifiers
    assert [read[name].publish for name in ("age", "area", "height")] == ["median", "set", "interval"]
