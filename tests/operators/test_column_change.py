"""A restore under other pass-through and sensitive columns: waiting tuples keep the values of those that stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.fingerprint import fingerprint
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.privacy import Persons, Privacy, Sensitive
from crenel.anonymity.model.secret import SubjectKey
from crenel.jobs.cli.savepoint import SavepointError, changed_settings, require_same
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import END, ShardFunction
from crenel.operators.signed_errors import signed_error
from crenel.state.block import Block
from crenel.state.codec import StateError
from tests.support.fakes import FakeRuntime, Harness
from tests.support.operator_stream import KEY, members, planned
from tests.support.operator_stream import block as plain_block

TYPES = {"illness": pa.string(), "place": pa.string(), "at_noon": pa.timestamp("ms"), "visit": pa.int64()}
CASES: dict[str, tuple[Algorithm, Privacy]] = {
    "castle": (Castle(Delay(200), loss_window=100, reuse_limit=1000), Privacy(3, 2)),
    "t-close": (Castle(Delay(200)), Privacy(3, 1, sensitive={"illness": Sensitive(t=0.9)})),
    "nearest": (Nearest(Delay(200)), Privacy(3, 2)),
    "lasting": (Nearest(Delay(200)), Privacy(3, 2, persons=Persons("lasting"))),
    "suhdsa": (Suhdsa(90), Privacy(3, 2)),
    "mondrian": (Mondrian(), Privacy(3, 2)),
}


def plan(case: str, sensitive: Sequence[str], passthrough: Sequence[str]) -> AnonymizationPlan:
    """Return a job with these columns, in which privacy models count no sensitive value but an illness."""
    algorithm, privacy = CASES[case]
    made = planned(algorithm)
    policy = dataclasses.replace(made.context.policy, sensitive=tuple(sensitive), passthrough=tuple(passthrough))
    uncounted = {name: Sensitive(l=1) for name in sensitive if name != "illness"}
    return of_privacy(made, policy, dataclasses.replace(privacy, sensitive={**privacy.sensitive, **uncounted}))


def of_privacy(made: AnonymizationPlan, policy: Any, privacy: Privacy) -> AnonymizationPlan:
    types = {name: str(TYPES[name]) for name in policy.members}
    of = fingerprint(policy, Shards(1), SubjectKey.of(b"a"), types, privacy=privacy)
    schema = pa.schema([(name, TYPES[name]) for name in policy.members])
    context = dataclasses.replace(made.context, policy=policy, privacy=privacy, members=schema, fingerprint=of)
    return dataclasses.replace(made, context=context)


def block(first: int, count: int, of: AnonymizationPlan) -> Block:
    """Tuples as of ``operator_stream.block``, with the columns of a job; ``place`` and ``at_noon`` follow the visit."""
    plain, policy = plain_block(first, count), of.context.policy
    numbers = plain.members.column("visit")
    codes = dict.fromkeys(TYPES, numbers.to_numpy().astype(np.uint64)) | {"illness": plain.sensitive[:, 0]}
    values = {
        "illness": plain.members.column("illness"),
        "place": numbers.cast(pa.string()),
        "at_noon": numbers.cast(pa.timestamp("ms")),
        "visit": numbers,
    }
    return dataclasses.replace(
        plain,
        sensitive=np.stack([codes[name] for name in policy.sensitive], axis=1).reshape(count, -1),
        members=pa.record_batch([values[name] for name in policy.members], schema=of.context.members),
    )


def published(harness: Harness, of: AnonymizationPlan) -> dict[int, dict[str, Any]]:
    """Return what was published of each visit, by column."""
    names = of.context.policy.members
    releases = [[dict(zip(names, values, strict=False)) for values in members(release)] for release in harness.main]
    for release in releases:  # under an earlier generalization they are fewer than it was published for
        few = len(release) == 1 or of.context.privacy.lasting is not None
        assert few or len({row["illness"] for row in release}) >= of.context.privacy.l
    rows = [row for release in releases for row in release]
    found = {row["visit"]: row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((["illness"], ["visit"]), (["place", "illness"], ["at_noon", "visit"])),
        ((["place", "illness"], ["at_noon", "visit"]), (["illness"], ["visit"])),
        ((["illness"], ["visit"]), (["illness"], ["visit", "place"])),
        ((["illness", "place"], ["visit", "at_noon"]), (["place", "illness"], ["at_noon", "visit"])),
    ],
    ids=["added", "removed", "added as passed", "in another order"],
)
def test_waiting_tuples_keep_the_columns_that_stay(
    case: str, before: tuple[list[str], list[str]], after: tuple[list[str], list[str]]
) -> None:
    runtime = FakeRuntime()
    was, now = plan(case, *before), plan(case, *after)
    first = Harness(ShardFunction(was), runtime)
    first.element(KEY, block(0, 60, was).to_bytes())
    first.element(KEY, block(60, 70, was).to_bytes())
    early = published(first, was)
    second = Harness(ShardFunction(now), runtime)
    second.element(KEY, block(130, 110, now).to_bytes())
    # All that it wrote has the new columns, so the state restores under them again.
    third = Harness(ShardFunction(now), runtime)
    third.advance(END)
    late = published(second, now) | published(third, now)
    assert not early.keys() & late.keys()
    assert len(late) > 100
    known = {name for names in before for name in names}
    waited = 0
    for visit, row in late.items():
        expected = {"place": str(visit), "at_noon": visit, "visit": visit}
        for name in now.context.policy.members:
            if visit < 130 and name not in known:
                assert row[name] is None
                waited += 1
            elif name != "illness":
                assert row[name] == expected[name] or str(row[name]) == str(expected[name])
            else:
                assert row[name] in ("flu", "cold", "gout")
    assert waited > 0 or known >= set(now.context.policy.members)


ONE = (["illness"], ["visit"])
TWO = (["illness", "place"], ["visit"])


def test_a_new_sensitive_column_that_a_model_counts_is_refused_by_name() -> None:
    was, now = plan("castle", *ONE), plan("castle", *TWO)
    counted = of_privacy(now, now.context.policy, Privacy(3, 2))
    runtime = FakeRuntime()
    Harness(ShardFunction(was), runtime).element(KEY, block(0, 10, was).to_bytes())
    with pytest.raises(PolicyError, match=r"policy\.sensitive\.place.*would count them as one value"):
        Harness(ShardFunction(counted), runtime).element(KEY, block(10, 10, counted).to_bytes())
    # Without a model it comes; and then, at a later restore, a model may.
    Harness(ShardFunction(now), runtime).element(KEY, block(10, 10, now).to_bytes())
    Harness(ShardFunction(counted), runtime).element(KEY, block(20, 10, counted).to_bytes())


@pytest.mark.parametrize(
    ("after", "field"),
    [
        ((["illness"], []), None),
        ((["place"], ["visit"]), r"policy\.sensitive\.place"),
        ((["illness", "visit"], []), r"policy\.passthrough, policy\.sensitive"),
    ],
    ids=["gone", "counted", "another role"],
)
def test_the_check_of_a_savepoint_says_what_a_restore_does(
    after: tuple[list[str], list[str]], field: str | None
) -> None:
    was, now = plan("castle", *ONE), plan("castle", *after)
    now = of_privacy(now, now.context.policy, Privacy(3, 2) if field else now.context.privacy)
    runtime = FakeRuntime()
    Harness(ShardFunction(was), runtime).element(KEY, block(0, 10, was).to_bytes())
    (blob,) = runtime.state[KEY, "shard"].values()
    stored = [Castle.state[1].from_bytes(blob)]
    if field is None:
        assert require_same("there", stored, now.context.fingerprint)
        (warning,) = changed_settings(stored, now.context.fingerprint)
        assert warning == "policy.passthrough: the column visit is gone; the records that wait are published without it"
        return
    with pytest.raises(SavepointError, match=field.split(", ")[0]):
        require_same("there", stored, now.context.fingerprint)
    with pytest.raises(PolicyError, match=field):
        Harness(ShardFunction(now), runtime).element(KEY, block(10, 10, now).to_bytes())


def test_a_job_that_can_end_for_good_gets_a_refusal_as_a_row_that_its_client_trusts() -> None:
    was, now = plan("castle", *ONE), plan("castle", *TWO)
    counted = dataclasses.replace(of_privacy(now, now.context.policy, Privacy(3, 2)), refuses=True)
    runtime = FakeRuntime()
    Harness(ShardFunction(was), runtime).element(KEY, block(0, 10, was).to_bytes())
    stored = {place: dict(entries) for place, entries in runtime.state.items() if entries}
    refusing: Any = Harness(ShardFunction(counted), runtime).function
    for results in (
        refusing.process_element((KEY, block(10, 10, counted).to_bytes()), runtime),
        refusing.on_timer(END, runtime),
    ):
        ((releases, why),) = (row.values for row in results)
        assert releases == []
        assert why.startswith("restore the state under the policy it was made with")
        assert signed_error(why) == why.partition("\n")[0]
        assert "policy.sensitive.place" in why
    assert {place: entries for place, entries in runtime.state.items() if entries} == stored
    # A job whose state fits has the same column, without a value.
    fitting: Any = Harness(ShardFunction(dataclasses.replace(was, refuses=True)), runtime).function
    rows = list(fitting.process_element((KEY, block(10, 230, was).to_bytes()), runtime))
    assert {row.values[1] for row in rows if not isinstance(row, tuple)} == {None}


def test_a_block_in_flight_under_other_columns_is_refused() -> None:
    was, now = plan("castle", ["illness"], ["visit"]), plan("castle", ["place"], ["visit"])
    assert len(was.context.members) == len(now.context.members)
    with pytest.raises(StateError, match="key 77: was in flight with other published columns"):
        Harness(ShardFunction(now)).element(KEY, block(0, 10, was).to_bytes())
