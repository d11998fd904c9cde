"""The page as people and browsers read it: whole, by itself, with nothing raw, and with numbers that agree."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pytest

from crenel.anonymity.model.attributes import Categorical, Noised, Numeric, by_name
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.attack.result import Attack
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.report.context import Flow, ReportError
from crenel.evidence.report.distributions import Came
from crenel.evidence.report.page import ReportPage
from tests.support.launch import ROOT, environment
from tests.support.published import (
    ILLNESSES,
    POLICY,
    K,
    Release,
    about,
    block,
    flow,
    outputs,
)
from tests.support.web_page import Page

TWO = [
    Release(((21, 1300, 0, "flu", 1), (27, 2900, 1, "gout", 2), (33, 1700, 2, "flu", 3)), "cluster", 1),
    Release(((61, 5100, 3, "flu", 4), (68, 6700, 4, ILLNESSES[3], 5)), "split", 30),
]
ALONE = Release(((44, 4300, 8, "cold", 6),), "generalized", 40)
ATTACK = Attack("linking <all>", "every quasi-identifier", 0.079, 0.06, 0.1, 0.033, 0.05, note="5 seeds")


def html(releases: list[Release], *, audited: bool = True, came: bool = True, **others: object) -> str:
    page = ReportPage(outputs(releases, audited=audited), about(**others))
    counted = Came(page.axes, POLICY)
    counted.add(block(releases))
    return page.html(flow(releases), came=counted if came else None)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_a_privacy_officer_reads_what_left_in_how_large_groups_and_at_what_cost() -> None:
    text = " ".join(Page(html([*TWO, ALONE])).text.split())
    assert "Of 15 input rows, 5 (33.3%) were published, with less detail in age, wage and town" in text
    assert "1 more were suppressed, and published fully generalized" in text
    assert "9 were rejected, because a value was missing or invalid" in text
    assert "as rows of 2 people or more (k is 2); half of them as rows of 3 or more" in text
    assert "of the detail in these columns was lost" in text
    assert "half of the rows waited for 3 later rows" in text
    assert "published unchanged: illness and id" in text


def test_groups_below_k_are_said_first_and_warned_of() -> None:
    text = " ".join(Page(html(TWO, privacy=Privacy(3))).text.split())
    assert "2 of them have the same values in these columns as rows of fewer than k = 3 people" in text
    assert "privacy.k: 1 releases have fewer than 3 persons" in text


def test_without_an_audit_log_no_persons_are_claimed() -> None:
    page = Page(html([*TWO, ALONE], audited=False))
    assert "Without the audit log, their number of people is unknown" in page.text
    assert "sinks.audit: is missing" in page.text
    assert page.tables["Rows by the size of their group"][0][0] == "rows of the group"
    assert [row[1] for row in page.tables["Rows by the size of their group"][1]] == ["2", "3"]
    assert [row[0] for row in page.tables["Rows by outcome"][1]][1] == "published fully generalized: outlier"


def test_without_an_audit_log_and_a_summary_synthetic_records_are_no_persons() -> None:
    page = ReportPage(outputs(TWO, audited=False), about(private=True, synthetic=True))
    found = Page(page.html(replace(flow(TWO), rows_in=None, synthetic=None)))
    text = " ".join(found.text.split())
    assert found.problems == []
    assert "5 synthetic records were published, with less detail in age, wage and town" in text
    assert "fewer than 2 people may be behind them" in text
    assert "The number of published records that noise added is unknown" in text
    assert "groups are counted in rows, and not in synthetic records" in text
    assert "2 persons or more" not in text


@pytest.mark.parametrize("audited", [True, False])
def test_a_run_of_which_nothing_left_has_a_page(audited: bool) -> None:
    page = ReportPage(outputs([ALONE], audited=audited), about())
    text = page.html(Flow(0, rows_in=0))
    assert Page(text).problems == []
    assert "Nothing was published." in text


def test_attacks_are_shown_where_there_are_any() -> None:
    page = ReportPage(outputs(TWO), about())
    assert "Attacks" not in page.html(flow(TWO))
    shown = Page(page.html(flow(TWO), attacks=[ATTACK, replace(ATTACK, name="guess", baseline=None, promised=None)]))
    assert shown.problems == []
    assert shown.tables["Success of attacks, on replays of the input"][1] == [
        ["linking <all>", "every quasi-identifier", "7.90%", "6.00% to 10.00%", "3.30%", "5.00%, above", "5 seeds"],
        ["guess", "every quasi-identifier", "7.90%", "6.00% to 10.00%", "-", "-", "5 seeds"],
    ]
    both = Page(page.html(flow(TWO), attacks=[ATTACK, replace(ATTACK, judged="outputs")]))
    assert [title for title in both.tables if "attacks" in title] == [
        "Success of attacks, on the outputs",
        "Success of attacks, on replays of the input",
    ]


def test_names_of_the_users_own_are_written_as_they_are() -> None:
    odd = '</svg><script>alert(1)</script> "&\N{ZERO WIDTH SPACE}\x07 $x_1$'
    tree = from_paths([(f"{odd}{i}{j}", f"{odd}{i}", "any") for i in "ab" for j in "xy"])
    policy = Policy({"age": Numeric((0, 99)), "town": Categorical(tree)}, sensitive=("illness",))
    made = outputs(TWO)
    label = f"{odd}a", f"{odd}b"
    towns = [label[row["town"] == "hills"] for row in made.released.to_pylist()]
    audited = [label[row["town"] == "hills"] for row in made.audit.to_pylist()] if made.audit else []
    made = RunOutputs(policy, _with(made.released, towns), _with(made.audit, audited))
    page = Page(ReportPage(made, about(name=odd, warnings=(odd,))).html(flow(TWO)))
    assert page.problems == []
    assert "</svg><script>alert(1)</script>" in page.text


def _with(table: object, towns: list[str]) -> object:
    assert isinstance(table, pa.Table)
    return table.set_column(table.column_names.index("town"), "town", pa.array(towns))


def test_outputs_of_another_hierarchy_are_refused_without_a_value() -> None:
    tree = from_paths([("coast", "anywhere"), ("moon", "anywhere")])
    made = outputs(TWO)
    policy = Policy(by_name((*POLICY.numeric, Categorical(tree).named("town"))), sensitive=("illness",))
    with pytest.raises(ReportError) as raised:
        ReportPage(RunOutputs(policy, made.released, made.audit), about())
    assert str(raised.value).startswith("released.town: holds labels that policy.quasi_identifiers.town.hierarchy does")
    assert "hills" not in str(raised.value)


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_package_that_is_missing_is_named_with_what_installs_it(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import crenel.evidence.report.page as p; p.require_packages()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, env=environment()
    )
    assert done.returncode == 1
    assert "the report needs Jinja2 and matplotlib" in done.stderr.splitlines()[-1]
    assert "install crenel with its extra 'report'" in done.stderr.splitlines()[-1]


def test_a_page_is_the_same_each_time() -> None:
    assert html(TWO) == html(TWO)


def test_k_of_one_shows_no_range_of_one_person() -> None:
    ages = range(20, 80, 10)
    many = [Release(tuple((age + i, 100 * age, i, "flu", age + i) for i in (0, 4)), "cluster", age) for age in ages]
    found = ReportPage(outputs(many), replace(about(), privacy=Privacy(1)))
    counted = Came(found.axes, POLICY)
    counted.add(block(many))
    rows = Page(found.html(flow(many), came=counted)).tables["age"][1]
    assert len(rows) > 2
    assert min(number(row[1]) for row in rows) >= K


def test_noise_within_releases_is_told_by_what_the_audit_log_has_of_it() -> None:
    made = outputs(TWO)
    assert made.audit is not None
    audit = made.audit
    for name, values in (("linkable", [1, 0]), ("noise_error_dose", [0.5, 0.25]), ("noise_expected_dose", [0.5, None])):
        audit = audit.append_column(name, pa.array(values))
    policy = replace(POLICY, noised={"dose": Noised((0, 9))})
    page = Page(ReportPage(RunOutputs(policy, made.released, audit), about()).html(flow(TWO)))
    # By rows: three of the one release, two of the other.
    assert page.tables["Noise within releases"][1] == [
        ["dose", "40.0%", "50.0%"],
        ["rows nearest to their own person's value", "20.0%", "-"],
    ]


def test_a_number_that_stands_for_its_group_is_counted_where_it_is() -> None:
    made = outputs(TWO)
    assert made.audit is not None
    policy = Policy({"age": Numeric((0, 99))}, sensitive=("illness",))
    drop = [*made.released.column_names[:5]]
    released, audit = (
        table.drop(drop).append_column("age", pa.array(ages))
        for table, ages in ((made.released, [27.0] * 3 + [64.5] * 2), (made.audit, [27.0, 64.5]))
    )
    page = Page(ReportPage(RunOutputs(policy, released, audit), about(representative=True)).html(flow(TWO)))
    assert page.problems == []
    assert [int(row[1]) for row in page.tables["age"][1]] == [3, 2]
    assert "Loss by attribute" not in page.tables
