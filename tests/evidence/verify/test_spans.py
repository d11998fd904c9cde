"""Outputs of a job that was restored with other settings: each release is judged by those that were in force."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crenel.anonymity.model.privacy import Privacy, Sensitive
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.verify.chain import Chained
from crenel.evidence.verify.spans import Guarantees, configuration_of
from crenel.evidence.verify.verdict import BROKEN, HOLDS, Verdict
from crenel.evidence.verify.verify import verify
from tests.support.released import AUDIT, GENERALIZATION, GUARANTEES, POLICY, SUMMARY, SUPPRESSED, K, Run, runs

LARGER = K + 2
FORMER = [name for name, _ in AUDIT]
MEMBERS = ("illness", "id")
BEFORE = replace(
    GUARANTEES,
    digest="before",
    name="before.yaml",
    columns={
        "audit": [*FORMER[:8], "in_force", *FORMER[8:]],
        "released": [*(name for name, _ in GENERALIZATION), *MEMBERS],
    },
)
AFTER = Guarantees(
    policy=replace(POLICY, sensitive=("illness", "ward")),
    privacy=Privacy(LARGER, 2, models={"alpha": 0.8}, sensitive={"ward": Sensitive(l=1, models={"alpha": 1.0})}),
    in_force=GUARANTEES.in_force | {"k": LARGER, "l_ward": 1, "alpha_ward": 1.0},
    shards=GUARANTEES.shards,
    generalizes=False,
    noise=False,
    digest="after",
    name="after.yaml",
    columns={
        "audit": [
            *(*FORMER[:7], "diversity_ward", "loss", "in_force", "k", "l", "alpha", "l_ward", "alpha_ward"),
            *FORMER[11:],
        ],
        "released": [*(name for name, _ in GENERALIZATION), "illness", "ward", "id"],
    },
)


@dataclass
class Restored:
    """A run whose larger classes were released under ``AFTER``, with one more sensitive column, in any order."""

    run: Run
    states_hash: bool = True

    @property
    def after(self) -> list[dict[str, object]]:
        """The releases under ``AFTER``."""
        return [row for row in self.run.audit if row["k"] == LARGER]

    def outputs(self) -> RunOutputs:
        of_after = (("diversity_ward", pa.int64()), ("in_force", pa.string()))
        audit = pa.schema([*AUDIT, *of_after, ("l_ward", pa.int64()), ("alpha_ward", pa.float64())])
        released = pa.schema([*GENERALIZATION, *((name, pa.string()) for name in ("illness", "id", "ward"))])
        rows = [dict.fromkeys(audit.names) | row for row in self.run.audit]
        if not self.states_hash:
            rows = [row | {"in_force": None} for row in rows]
        members = [{name: row.get(name) for name in released.names} for row in self.run.released]
        return RunOutputs(
            replace(AFTER.policy, subject="person" if self.run.subject else None),
            pa.Table.from_pylist(members, released),
            pa.Table.from_pylist(rows, audit),
            pa.Table.from_pylist(self.run.suppressed, pa.schema(SUPPRESSED)),
            None,
            {"summary": pa.Table.from_pylist(self.run.summary, pa.schema(SUMMARY))},
        )

    def verify(self, *given: Guarantees) -> Verdict:
        subject = "person" if self.run.subject else None
        known = [replace(one, policy=replace(one.policy, subject=subject)) for one in given]
        return verify(self.outputs(), known)


@st.composite
def restored(draw: st.DrawFn) -> Restored:
    """Return a run with releases under both, of which those with fewer persons are under ``BEFORE``."""
    run = draw(runs().filter(lambda run: not run.pseudonym))
    larger = {row["age_min"] for row in run.audit if row["subjects"] >= LARGER and draw(st.booleans())}
    wards = {"ward": "u"}
    for row in run.audit:
        row["in_force"] = "before"
        if row["age_min"] in larger:
            row |= {"in_force": "after", "k": LARGER, "l_ward": 1, "alpha_ward": 1.0, "diversity_ward": 1}
    for member in run.released:
        member |= wards if member["age_min"] in larger else {}
    return Restored(run)


def broken(verdict: Verdict) -> set[tuple[str, int | None, int | None]]:
    return {(check.name, found.shard, found.release) for check in verdict.checks for found in check.findings}


@pytest.mark.parametrize("states_hash", [True, False], ids=["hash", "older version"])
@given(made=restored())
def test_settings_that_change_back_and_forth_hold_together(states_hash: bool, made: Restored) -> None:
    made.states_hash = states_hash
    verdict = made.verify(BEFORE, AFTER)
    assert broken(verdict) == set()
    assert verdict.outcome == HOLDS
    assert broken(made.verify(AFTER, BEFORE)) == set()
    (in_force,) = [check for check in verdict.checks if check.name == "in force"]
    assert f"in {len(made.after):,} releases of after.yaml" in in_force.words


@given(made=restored().filter(lambda made: len(made.after) > 0))
def test_a_release_of_settings_that_are_not_given_is_named_with_the_remedy(made: Restored) -> None:
    first = made.after[0]
    other = replace(AFTER, digest="other", name="other.yaml")
    (in_force,) = [check for check in made.verify(BEFORE, other).checks if check.name == "in force"]
    (finding,) = in_force.findings
    assert (finding.shard, finding.release) == (first["shard"], first["release_id"])
    assert "says in_force after, and none of those given has it" in finding.text
    assert "crenel verify BEFORE.yaml AFTER.yaml" in finding.text


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"subjects": LARGER - 1}, "k under {after}.yaml"),  # enough for the other configuration
        ({"k": K}, "in force"),
        ({"diversity_ward": 9}, "l of ward under {after}.yaml"),
        ({"diversity_ward": None}, "l of ward under {after}.yaml"),
        ({"town": "nowhere"}, "domain under {after}.yaml"),
    ],
    ids=str,
)
@settings(max_examples=20)
@given(made=restored().filter(lambda made: any(row["kind"] == "cluster" for row in made.after)), data=st.data())
def test_a_break_under_one_of_the_settings_is_still_found(
    change: dict[str, object], name: str, made: Restored, data: st.DataObject
) -> None:
    row = data.draw(st.sampled_from([row for row in made.after if row["kind"] == "cluster"]))
    row |= change
    verdict = made.verify(BEFORE, replace(AFTER, name="{after}.yaml"))
    assert (name, row["shard"], row["release_id"]) in broken(verdict)
    assert verdict.outcome == BROKEN


@given(made=restored(), data=st.data())
def test_what_concerns_all_releases_is_checked_across_settings(made: Restored, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(made.run.audit) - 1))
    row = made.run.audit[place]
    made.run.audit.insert(place, dict(row))
    assert ("release ids", row["shard"], row["release_id"]) in broken(made.verify(BEFORE, AFTER))
    made.run.audit.pop(place)
    made.run.released.pop()
    assert any(name == "cover" for name, *_ in broken(made.verify(BEFORE, AFTER)))


@given(made=restored().filter(lambda made: len(made.after) < len(made.run.audit)), data=st.data())
def test_a_value_that_the_settings_of_its_release_do_not_publish_is_found(made: Restored, data: st.DataObject) -> None:
    after = {row["age_min"] for row in made.after}
    row = data.draw(st.sampled_from([row for row in made.run.audit if row["age_min"] not in after]))
    member = next(member for member in made.run.released if member["age_min"] == row["age_min"])
    member["ward"] = "a raw value"
    assert broken(made.verify(BEFORE, AFTER)) == {("columns", None, None)}
    row["l_ward"] = 1
    assert ("columns", row["shard"], row["release_id"]) in broken(made.verify(BEFORE, AFTER))


def test_settings_with_one_hash_are_told_apart_by_their_chain() -> None:
    audit = pa.table({"in_force": ["before", "before", "after"], "chain": [None, "a link", "a link"]})
    chained = replace(BEFORE, chained=Chained(b"", "", "", ""))
    assert configuration_of(audit, [BEFORE, chained, AFTER]).tolist() == [0, 1, 2]
    assert configuration_of(audit, [chained, BEFORE, chained]).tolist() == [1, 0, -1]


@given(made=restored())
def test_without_an_audit_log_several_settings_are_refused(made: Restored) -> None:
    outputs = replace(made.outputs(), audit=None)
    with pytest.raises(ValueError, match="audit: is missing"):
        verify(outputs, [BEFORE, AFTER])
