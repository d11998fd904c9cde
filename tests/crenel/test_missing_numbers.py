"""Numbers that are missing: kept, published, verified, attacked and restored, by each algorithm."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crenel
from crenel.results import Result
from tests.crenel.stream import records as visits
from tests.crenel.stream import settings
from tests.crenel.test_published_forms import broken, changed
from tests.support.example_counts import FEW

DELAY = crenel.Delay(tuples=40)
ALGORITHMS: dict[str, dict[str, Any]] = {
    "castle": {"algorithm": crenel.Castle(DELAY)},
    "castle, reuse": {"algorithm": crenel.Castle(DELAY, max_clusters=3, reuse_limit=20)},
    "castle, generalize": {"algorithm": crenel.Castle(DELAY, suppression="generalize")},
    "castleguard": {
        "algorithm": crenel.Castle(DELAY),
        "sampling_and_noise": crenel.SamplingAndNoise(sample_rate=0.9, phi=2),
    },
    "nearest": {"algorithm": crenel.Nearest(DELAY)},
    "lasting": {
        "algorithm": crenel.Nearest(DELAY),
        "privacy": crenel.Privacy(k=4, l=2, persons=crenel.Persons(guarantee="lasting")),
    },
    "suhdsa": {"algorithm": crenel.Suhdsa(tuples=40)},
    "mondrian": {"algorithm": crenel.Mondrian(crenel.Window(tuples=40))},
    "k-epsilon": {
        "algorithm": crenel.Nearest(DELAY),
    },
}
ALONE = ("castle, reuse", "castle, generalize", "lasting")
"""Algorithms that publish records under the generalization of other classes."""


def records(rows: int = 300, missing: float = 0.3, seed: int = 3) -> pa.Table:
    """Return visits of which a share has no age, and a share no height, independently of each other."""
    draw, table = random.Random(seed), visits(rows, seed)
    for name in ("age", "height"):
        column = table[name].to_pylist()
        if name == "height":
            column = [float(value) for value in column]
        values = pa.array(
            [None if draw.random() < missing else value for value in column],
            pa.int16() if name == "age" else pa.float64(),
        )
        table = table.set_column(table.column_names.index(name), name, values)
    pulse = pa.array([draw.randrange(50, 160) for _ in range(rows)], pa.int32())
    return table.drop(["tests"]).append_column("pulse", pulse)


def of(name: str = "nearest", *, k: int = 4, age: Any = None) -> crenel.Settings:
    """Return settings that keep missing numbers."""
    base = settings()
    attributes: dict[str, Any] = dict(base.policy.quasi_identifiers)
    attributes["age"] = crenel.Numeric((18, 100), missing="value") if age is None else age
    # The middle of the heights is on no grid.
    attributes["height"] = crenel.Numeric((140, 210), step=0.1, ends=3, missing="value")
    noised = {"pulse": crenel.Noised((40, 200))} if name == "k-epsilon" else {}
    policy = replace(
        base.policy,
        quasi_identifiers=attributes,
        noised=noised,
        passthrough=["born", "clinic"] if noised else ["born", "clinic", "pulse"],
    )
    noise = crenel.NoiseWithinRelease(epsilon=1) if noised else None
    changes = {"privacy": crenel.Privacy(k=k, l=2, noise_within_release=noise), **ALGORITHMS[name]}
    return replace(base, policy=policy, **changes)


def judge(came: pa.Table, result: Result, name: str, k: int) -> None:
    """Require of each release what the outputs and the input show, independently of the code that published it."""
    rows, released, begin = came.to_pylist(), result.released.to_pylist(), 0
    for release in result.audit.to_pylist():
        members = released[begin : begin + release["tuples"]]
        begin += release["tuples"]
        behind = [rows[member["row"]] for member in members]
        if release["kind"] not in ("reused", "generalized", "again", "widened"):
            assert len({row["person"] for row in behind}) >= k
        for number in ("age", "height"):
            low, high, missing = (release[f"{number}_{what}"] for what in ("min", "max", "missing"))
            assert all(member[f"{number}_min"] == low and member[f"{number}_missing"] == missing for member in members)
            assert (low is None) == (high is None) == (missing == "yes")
            if name == "castleguard":
                continue  # values and presence are perturbed
            present = [row[number] for row in behind if row[number] is not None]
            assert all(low <= value <= high for value in present)
            if missing != "maybe":
                assert len(present) == (0 if missing == "yes" else len(behind))
            elif name not in ALONE:
                assert 0 < len(present) < len(behind)
                if number == "age":  # which has no grid
                    assert (low, high) == (min(present), max(present))
    assert begin == len(released)
    withheld = 0 if name == "castle, generalize" else sum(result.summary.suppressed.values())
    sampled_out = result.summary.sampled_out or 0
    assert result.released.num_rows + withheld + result.rejected.num_rows + sampled_out == len(rows)
    assert not {row["column"] for row in result.rejected.to_pylist()} & {"age", "height"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_missing_numbers_are_published_as_they_are_and_verified(name: str) -> None:
    for missing, rows in ((0.05, 200), (0.5, 300), (1.0, 120)):
        came, under = records(rows, missing), of(name)
        result = crenel.anonymize(came, under, row_numbers=True)
        judge(came, result, name, 4)
        assert broken(result, under) == set()
        if missing == 0.5:
            assert {"no", "yes"} <= set(result.released["age_missing"].to_pylist())


@given(
    st.sampled_from([name for name in ALGORITHMS if name != "castleguard"]),
    st.sampled_from((2, 4)),
    st.floats(0, 1),
    st.integers(40, 120),
    st.integers(0, 2**16),
)
@FEW
def test_k_holds_and_flags_and_intervals_are_true_on_any_stream(
    name: str, k: int, missing: float, rows: int, seed: int
) -> None:
    came, under = records(rows, missing, seed), of(name, k=k)
    result = crenel.anonymize(came, under, row_numbers=True)
    judge(came, result, name, 4 if name == "lasting" else k)
    assert broken(result, under) == set()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_restored_stream_goes_on_as_if_nothing_had_happened(name: str) -> None:
    came, under = records(200), of(name)
    expected = crenel.anonymize(came, under)
    parts, kept = [], None
    for start in range(0, 200, 70):
        with crenel.open_stream(under, snapshot=kept) as stream:
            parts.append(stream.push(came.slice(start, 70)))
            kept = stream.snapshot()
    with crenel.open_stream(under, snapshot=kept) as stream:
        parts.append(stream.finish())
    found = Result.joined(parts)
    assert found.released.equals(expected.released)
    assert found.audit.equals(expected.audit)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (changed("age_missing", lambda _: "no"), "holds no number"),
        (changed("age_missing", lambda _: "yes"), "age_missing says is missing"),
        (changed("age_missing", lambda _: "perhaps"), "holds no label of its hierarchy"),
        (changed("age_missing", lambda flag: "no" if flag == "maybe" else flag), "published_loss that its values"),
        (changed("age_missing", lambda flag: "maybe" if flag == "no" else flag), "published_loss that its values"),
        (changed("age_missing", lambda flag: "maybe" if flag == "no" else flag, "released"), "no release has their"),
        (changed("age_min", lambda low: low or 55), "age_missing says is missing"),
        (changed("age_max", lambda _: None), "holds no number"),
        (changed("published_loss", lambda loss: loss / 2, "audit"), "published_loss that its values"),
    ],
)
def test_a_flag_that_lies_is_refused(change: Callable[[Result], Result], problem: str) -> None:
    under = of("castle")
    result = crenel.anonymize(records(300), under)
    assert set(result.audit["age_missing"].to_pylist()) == {"no", "yes", "maybe"}
    assert broken(result, under) == set()
    found = [finding.text for check in crenel.verify(change(result), under).checks for finding in check.findings]
    assert any(problem in text for text in found)


def test_attackers_tell_who_has_no_age_and_gain_no_more_than_one_in_k() -> None:
    came, under = records(300), of()
    found = crenel.attack(came, under, result=crenel.anonymize(came, under))
    identified = [each for each in found.attacks if each.name == "re-identification at 1"]
    assert identified
    assert all(0 < each.success <= 1 / 4 + 1e-9 for each in identified)


@pytest.mark.parametrize("form", ["mean", "median"])
@pytest.mark.parametrize("name", ["castle", "nearest", "suhdsa", "mondrian"])
def test_a_representative_counts_those_that_have_the_number_and_needs_k_of_them(name: str, form: Any) -> None:
    for subject in ("person", None):
        under = of(name, k=3, age=crenel.Numeric((18, 100), publish=form, missing="value"))
        policy = replace(under.policy, subject=subject, drop=[] if subject else ["person"])
        under, came = replace(under, policy=policy), records(200, 0.3)
        result = crenel.anonymize(came, under, row_numbers=True)
        assert broken(result, under) == set()
        rows, released, begin = came.to_pylist(), result.released.to_pylist(), 0
        few = 0
        for release in result.audit.to_pylist():
            members = released[begin : begin + release["tuples"]]
            begin += release["tuples"]
            behind = [row for member in members if (row := rows[member["row"]])["age"] is not None]
            ages = sorted(row["age"] for row in behind)
            persons = len({row["person"] for row in behind}) if subject else len(behind)
            if not ages:
                assert (release["age"], release["age_missing"]) == (None, "yes")
            elif persons < 3:
                assert (release["age"], release["age_missing"]) == (None, "maybe")
                few += 1
            elif form == "mean":
                assert release["age"] == pytest.approx(sum(ages) / len(ages))
            else:
                assert release["age"] == (ages[(len(ages) - 1) // 2] + ages[len(ages) // 2]) / 2
        assert few or name == "castle"  # whose classes are larger


def test_why_and_a_report_explain_both_the_number_and_its_absence() -> None:
    came, under = records(300, 0.1), of()
    found = crenel.why(came, under)
    assert {"age", "age_missing"} <= found.remedies.losses.keys()
    assert {"age", "height"} <= {remedy.column for remedy in found.remedies.tried}
    assert "age_missing" not in {remedy.column for remedy in found.remedies.tried}
    under = of(age=crenel.Numeric((18, 100), publish="mean", missing="value"))  # null where few have the number
    page = crenel.report(crenel.anonymize(came, under), under, name="visits", data=came)
    assert {"age_missing", "height_missing"} <= {*re.findall(r"\w+", page)}


@pytest.mark.parametrize(
    ("attribute", "algorithm", "problem"),
    [
        (lambda: crenel.Numeric(missing="value"), None, "domain: is missing; 'missing: value' needs one"),
        (
            lambda: crenel.Numeric((18, 100), missing="value"),
            crenel.Suhdsa(tuples=40, output="representative"),
            "publishes a representative, to which missing numbers would count",
        ),
    ],
)
def test_settings_that_cannot_keep_missing_numbers_are_refused(
    attribute: Callable[[], Any], algorithm: Any, problem: str
) -> None:
    with pytest.raises(crenel.ConfigError) as error:
        replace(of(age=attribute()), **({} if algorithm is None else {"algorithm": algorithm}))
    assert problem in str(error.value)


def test_a_column_of_the_source_must_not_have_the_name_of_the_flag() -> None:
    under = of()
    with pytest.raises(crenel.ConfigError, match="publishes a column 'age_missing'"):
        replace(under, policy=replace(under.policy, drop=["age_missing"]))
