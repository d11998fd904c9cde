"""Outputs in which everything holds are found good, and whatever is changed in them is found, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crenel.anonymity.builtin import BETA, PRIVACY_MODELS, T
from crenel.anonymity.model.privacy_model import PrivacyModel
from crenel.anonymity.model.reference import Reference
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.verify import persons
from crenel.evidence.verify.accounts import nothing_lost
from crenel.evidence.verify.classes import ReleasedClasses
from crenel.evidence.verify.formulas import FORMULAS
from crenel.evidence.verify.verdict import BROKEN, HOLDS, UNCHECKED, UNSEEN, Verdict
from crenel.evidence.verify.verify import verify
from tests.support.published import POLICY
from tests.support.released import AUDIT, GUARANTEES, K, Run, runs
from tests.support.sensitive import distance, ground_of
from tests.support.settings import sensitive_of

Broken = set[tuple[str, int | None, int | None]]


def broken(verdict: Verdict) -> Broken:
    """Return the checks with findings, and their releases."""
    return {(check.name, found.shard, found.release) for check in verdict.checks for found in check.findings}


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {check.name: check.outcome for check in verdict.checks}


@given(run=runs())
def test_what_holds_is_found_to_hold(run: Run) -> None:
    found = verify(run.outputs(), GUARANTEES)
    assert broken(found) == set()
    assert found.outcome == HOLDS
    by_name = outcomes(found)
    assert by_name["distinct persons"] == (UNSEEN if run.subject and not run.pseudonym else HOLDS)
    assert by_name["truth"] == UNSEEN
    assert found.to_dict()["holds"] is True


def drop_release(run: Run, place: int) -> Broken:
    gone = run.audit.pop(place)
    after = any(row["shard"] == gone["shard"] and row["release_id"] > gone["release_id"] for row in run.audit)
    # The last one leaves no gap; its rows and the summary's counts are there still.
    return {("release ids" if after else "counts", gone["shard"], gone["release_id"] if after else None)}


def repeat_release(run: Run, place: int) -> Broken:
    row = run.audit[place]
    run.audit.insert(place, dict(row))
    return {("release ids", row["shard"], row["release_id"])}


def drop_row(run: Run, place: int) -> Broken:
    row = run.audit[place]
    same = [i for i, other in enumerate(run.released) if other["age_min"] == row["age_min"]]
    run.released.pop(same[0])
    first = next(other for other in run.audit if other["age_min"] == row["age_min"])
    return {("cover", first["shard"], first["release_id"])}


def add_row(run: Run, place: int) -> Broken:
    row = run.audit[place]
    run.released.append(next(dict(other) for other in run.released if other["age_min"] == row["age_min"]))
    first = next(other for other in run.audit if other["age_min"] == row["age_min"])
    return {("cover", first["shard"], first["release_id"])}


def move_row(run: Run, place: int) -> Broken:
    run.released[place % len(run.released)]["age_max"] = 98.5
    return {("cover", None, None)}


def leave_the_domain(run: Run, place: int) -> Broken:
    run.released[place % len(run.released)]["age_max"] = 12345.0
    return {("domain", None, None)}


def invent_a_label(run: Run, place: int) -> Broken:
    row = run.audit[place]
    row["town"] = "nowhere"
    return {("domain", row["shard"], row["release_id"])}


def fewer_persons(run: Run, place: int) -> Broken:
    row = run.audit[place]
    row["subjects"] = K - 1
    return {("k", row["shard"], row["release_id"])}


def more_persons(run: Run, place: int) -> Broken:
    row = next(row for row in run.audit if row["kind"] == "cluster")
    row["subjects"] = row["tuples"] + 1
    return {("k", row["shard"], row["release_id"])}


def less_diversity(run: Run, place: int) -> Broken:
    row = run.audit[place]
    row["diversity_illness"] = 1
    return {("l of illness", row["shard"], row["release_id"])}


def more_diversity(run: Run, place: int) -> Broken:
    row = next(row for row in run.audit if row["kind"] == "cluster")
    row["diversity_illness"] = 5
    return {("l of illness", row["shard"], row["release_id"])}


def another_k(run: Run, place: int) -> Broken:
    row = run.audit[place]
    row["k"] = K - 1
    return {("in force", row["shard"], row["release_id"])}


def noise_in_force(run: Run, place: int) -> Broken:
    row = run.audit[place]
    row["phi"] = 100.0
    return {("in force", row["shard"], row["release_id"])}


def reuse_of_nothing(run: Run, place: int) -> Broken:
    row = run.audit[place]
    last = max(other["release_id"] for other in run.audit if other["shard"] == row["shard"]) + 1
    run.audit.append({**row, "kind": "reused", "tuples": 1, "release_id": last, "age_max": 97.0})
    return {("alone", row["shard"], last)}


def suppressed_twice(run: Run, place: int) -> Broken:
    run.suppressed += [{"reason": "outlier", "shard": 1, "position": 9, "event_time": None}] * 2
    return {("counts", 1, None)}


CHANGES: list[Callable[[Run, int], Broken]] = [
    *(drop_release, repeat_release, drop_row, add_row, move_row, fewer_persons, more_persons, less_diversity),
    *(more_diversity, another_k, noise_in_force, reuse_of_nothing, suppressed_twice, leave_the_domain, invent_a_label),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@settings(max_examples=20)
@given(run=runs(), data=st.data())
def test_what_is_changed_is_found_where_it_was(
    change: Callable[[Run, int], Broken], run: Run, data: st.DataObject
) -> None:
    expected = change(run, data.draw(st.integers(0, len(run.audit) - 1)))
    found = verify(run.outputs(), GUARANTEES)
    assert expected <= broken(found)
    assert found.outcome == BROKEN
    names = {name for name, _, _ in expected}
    assert {check.name for check in found.checks if check.outcome == BROKEN} >= names


@given(run=runs(), data=st.data())
def test_a_pseudonym_shows_who_is_there_too_often(run: Run, data: st.DataObject) -> None:
    run.pseudonym = run.subject = True
    whole = [row for row in run.audit if Counter(r["age_min"] for r in run.audit)[row["age_min"]] == 1]
    rows = data.draw(st.sampled_from(whole)) if whole else None
    if rows is None:
        return
    of = [row for row in run.released if row["age_min"] == rows["age_min"]]
    persons = sorted({row["who"] for row in of})
    for row in of:
        row["who"] = persons[0] if row["who"] == persons[-1] else row["who"]
    assert ("distinct persons", rows["shard"], rows["release_id"]) in broken(verify(run.outputs(), GUARANTEES))


def test_without_audit_rows_alone_are_counted_and_nothing_else_counts_as_checked() -> None:
    run = Run([], [], [], [], pseudonym=False, subject=True)
    values = {"age_min": 1.0, "age_max": 2.0, "town": "all", "illness": "flu", "id": "1", "who": "a"}
    run.released = [dict(values)] * K
    found = verify(replace(run.outputs(), audit=None), GUARANTEES)
    assert broken(found) == {("values of illness", None, None)}
    assert outcomes(found)["k by rows"] == HOLDS
    run.released = [dict(values, illness=illness) for illness in ("flu", "gout", "cold")]
    found = verify(replace(run.outputs(), audit=None), GUARANTEES)
    assert broken(found) == set()
    assert {name for name, outcome in outcomes(found).items() if outcome == UNCHECKED} == {
        *("release ids", "cover", "in force", "k", "distinct persons", "alone", "l of illness", "alpha of illness")
    }
    assert found.outcome == UNCHECKED
    assert found.to_dict()["holds"] is False
    run.released.pop()
    assert ("k by rows", None, None) in broken(verify(replace(run.outputs(), audit=None), GUARANTEES))


def test_a_value_outside_its_domain_is_told_by_column_and_row_and_not_by_itself() -> None:
    run = Run([], [], [], [], pseudonym=False, subject=True)
    values = {"age_min": 1.0, "age_max": 2.0, "town": "all", "illness": "flu", "id": "1", "who": "a"}
    run.released = [dict(values) for _ in range(4)]
    run.released[1]["age_min"] = -4321.0
    run.released[2]["age_max"] = 99.000001  # less than float32 tells from 99
    run.released[3] |= {"age_max": None, "town": "4321"}
    (domain,) = [check for check in verify(run.outputs(), GUARANTEES).checks if check.name == "domain"]
    assert [str(finding) for finding in domain.findings] == [
        "column 'age_min' of released lies outside its domain in row 2",
        "column 'age_max' of released holds no number in row 4",
        "column 'age_max' of released lies outside its domain in row 3",
        "column 'town' of released holds no label of its hierarchy in row 4",
    ]


REFERENCES = {
    "equal": Reference(("flu", "gout", "cold"), (0.5, 0.3, 0.2)),
    "ordered": Reference(("flu", "gout", "cold"), (0.5, 0.3, 0.2), distance="ordered"),
}


@pytest.mark.parametrize("model", PRIVACY_MODELS, ids=lambda model: model.name)
@given(counts=st.lists(st.integers(0, 12), min_size=3, max_size=3).filter(any), factor=st.sampled_from([0.5, 1, 2]))
def test_each_privacy_model_has_a_formula_that_agrees_with_it(
    model: PrivacyModel, counts: list[int], factor: float
) -> None:
    given_, reference = model.as_numbers(model.example), REFERENCES["ordered"]
    first, *rest = given_ if isinstance(given_, tuple) else (given_,)
    held, persons = {value: count for value, count in zip(reference.values, counts, strict=True) if count}, sum(counts)

    def satisfies(number: float) -> bool:
        parameters, falling = np.array([number, *rest]), np.array(sorted(held.values(), reverse=True))
        if not model.compares:
            return model.lacking(persons, falling, parameters) == 0
        rows, table = np.flatnonzero(counts), np.array(model.table(reference))
        return model.lacking(persons, np.array(counts)[rows], parameters, rows, table) == 0

    limit = first * factor
    assume(satisfies(limit * (1 - 1e-6)) == satisfies(limit * (1 + 1e-6)))  # a formula lets pass what is rounded
    keeps = FORMULAS[model.name].keeps(reference if model.compares else None, limit, *rest, persons, held)
    assert keeps == satisfies(limit)


@pytest.mark.parametrize("name", REFERENCES)
@given(run=runs(), limit=st.sampled_from([0.1, 0.25, 0.4]))
def test_closeness_to_a_reference_is_that_of_the_rows(name: str, run: Run, limit: float) -> None:
    reference = REFERENCES[name]
    of = sensitive_of(None, ((T, limit), (BETA, 1.0)), reference)
    run.subject, run.pseudonym = False, False
    for row in run.audit:
        row["subjects"] = row["tuples"]
    found = verify(run.outputs(), replace(GUARANTEES, privacy=replace(GUARANTEES.privacy, sensitive={"illness": of})))
    ground, shares = ground_of(reference), dict(zip(reference.values, reference.shares, strict=True))
    far, common, strange = set(), set(), set()
    for row in run.audit:
        counts = Counter(r["illness"] for r in run.released if r["age_min"] == row["age_min"])
        if Counter(r["age_min"] for r in run.audit)[row["age_min"]] > 1:
            continue
        if not counts.keys() <= shares.keys():
            strange.add((row["shard"], row["release_id"]))
        if distance(counts, shares, ground) > limit + 1e-7:
            far.add((row["shard"], row["release_id"]))
        if any(count / counts.total() > 2 * shares.get(value, 0) + 1e-7 for value, count in counts.items()):
            common.add((row["shard"], row["release_id"]))
    # A value missing in the reference stands for some of all values, which may be a longer way than the shortest.
    apart = {release[1:] for release in broken(found) if release[0] == "t of illness"}
    assert far <= apart <= far | strange
    assert {release[1:] for release in broken(found) if release[0] == "beta of illness"} == common


@given(st.lists(st.lists(st.sampled_from(("flu", "gout", "cold")), min_size=3, max_size=8), min_size=2, max_size=3))
def test_releases_under_one_generalization_are_judged_together(classes: list[list[str]]) -> None:
    run = Run([], [], [], [], pseudonym=False, subject=False)
    generalization = {"age_min": 1.0, "age_max": 2.0, "town": "all"}
    for number, values in enumerate(classes):
        stated_counts = {"subjects": len(values), "tuples": len(values), "diversity_illness": len(set(values))}
        row = dict.fromkeys(name for name, _ in AUDIT) | {
            "release_id": number,
            "shard": 0,
            "kind": "cluster",
            "loss": 0.5,
        }
        run.audit.append(row | GUARANTEES.in_force | stated_counts | generalization)
        run.released += [{**generalization, "illness": value, "id": "", "who": ""} for value in values]
    counts = Counter(value for values in classes for value in values)
    found = broken(verify(run.outputs(), GUARANTEES))
    assert (("alpha of illness", 0, 0) in found) == (max(counts.values()) > 0.8 * counts.total() + 1e-6)


@pytest.mark.parametrize("subject", [False, True])
@pytest.mark.parametrize("pseudonym", [False, True])
def test_where_nothing_left_nothing_is_broken(subject: bool, pseudonym: bool) -> None:
    run = Run([], [], [{"reason": "outlier", "shard": 0, "position": 0}], [], pseudonym, subject or pseudonym)
    of = sensitive_of(None, ((T, 0.1),), REFERENCES["equal"])
    guarantees = replace(GUARANTEES, privacy=replace(GUARANTEES.privacy, sensitive={"illness": of}))
    assert broken(verify(run.outputs(), guarantees)) == set()
    assert broken(verify(replace(run.outputs(), audit=None), guarantees)) == set()


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({}, None),
        ({"tuples_in": 6}, "shard 0: the summary counts 6 admitted tuples, and 5 that were decided"),
        ({"forgotten": 1}, "shard 0: the summary counts 5 admitted tuples, and 6 that were decided"),
        ({"rejected.missing": 2}, "the summary counts 2 rejected rows, and there are 1"),
        ({"sampled_out": 1}, "9 records were read, and 10 were admitted, sampled out or rejected"),
    ],
)
def test_a_record_that_no_output_accounts_for_is_lost(change: dict[str, int], finding: str | None) -> None:
    counts = {"tuples_in": 5, "released": 3, "suppressed.outlier": 3, "releases.generalized": 1, "rejected.missing": 1}
    rows = [{"shard": 0, "name": name, "amount": float(amount)} for name, amount in (counts | change).items()]
    rows += [{"shard": 1, "name": name, "amount": 3.0} for name in ("tuples_in", "released")]
    one, empty = pa.table({"reason": ["missing"]}), pa.table({})
    of = RunOutputs(POLICY, empty, empty, empty, one, {"summary": pa.Table.from_pylist(rows)}, read=9)
    check = nothing_lost(of)
    assert [str(found) for found in check.findings][:1] == ([] if finding is None else [finding])
    # A shard that has gone on since its summary is not judged by it.
    assert nothing_lost(replace(of, read=None), resumed=[0]).outcome == HOLDS
    assert nothing_lost(replace(of, audit=None)).outcome == UNSEEN


@given(run=runs())
def test_a_bound_that_cannot_be_decided_is_not_said_to_be_kept(run: Run) -> None:
    outputs = run.outputs()
    assert outputs.audit is not None
    classes = ReleasedClasses.of(outputs)
    seen = persons.RevealedReleases.from_outputs(outputs, outputs.audit, classes)
    assert persons._kept(seen, classes, "t of illness", lambda *_: None, {}, {0: (3, {"flu": 3})}).outcome == UNSEEN
