"""The hash chain of the audit log, from the operator in a fake runtime, followed by the code of ``crenel verify``."""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.secret import Secret
from crenel.evidence.outputs import RunOutputs, split_audit
from crenel.evidence.verify import chain as reader
from crenel.evidence.verify.chain import Chained, follow, heads
from crenel.evidence.verify.classes import ReleasedClasses
from crenel.evidence.verify.spans import Guarantees
from crenel.evidence.verify.verdict import BROKEN, HOLDS, UNCHECKED, UNSEEN, Check, Head
from crenel.evidence.verify.verify import verify
from crenel.operators.output_columns import ARROW, CHAIN
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards import chain as writer
from crenel.operators.shards.chain import ChainColumn, ChainSettings, Form
from crenel.operators.shards.function import END, ShardFunction
from crenel.state.block import Block
from crenel.state.operator import ChainState
from tests.support.fakes import FakeRuntime, Harness
from tests.support.operator_stream import KEY, block, members, planned
from tests.support.programs import LINK

MADE: dict[str, Algorithm] = {
    "castle": Castle(Delay(20), reuse_limit=50),
    "nearest": Nearest(Delay(20, jitter=0.25), reuse_limit=1000),
    "window": Suhdsa(tuples=20),
}
GENERALIZATION = [("age_min", pa.float64()), ("age_max", pa.float64()), ("group", pa.string())]
AUDIT = pa.schema(
    [
        *((name, pa.int64()) for name in ("release_id", "shard", "event_time")),
        ("kind", pa.string()),
        *((name, pa.int64()) for name in ("subjects", "tuples", "diversity_illness")),
        ("loss", pa.float64()),
        *((name, pa.int64()) for name in ("k", "l")),
        ("phi", pa.float64()),
        *GENERALIZATION,
        *((name, ARROW[column.kind]) for name, column in zip(LINK, CHAIN, strict=True)),
    ]
)
RELEASED = pa.schema([*GENERALIZATION, ("illness", pa.string()), ("visit", pa.string())])
CHAINED = Chained(b"a key", "policy", "hierarchies", "settings")
RUN = "00000000000000a1"
CHAIN_PLAN = ChainSettings(
    key=Secret("audit_chain.key", b"a key"),
    in_force=(3, 2, None),
    run=RUN,
    version="1",
    policy="policy",
    hierarchies="hierarchies",
    settings="settings",
    null_text="",
    generalization=(ChainColumn("age_min", "double"), ChainColumn("age_max", "double"), ChainColumn("group")),
    members=(ChainColumn("illness"), ChainColumn("visit", "decimal")),
)


def plan(algorithm: str = "castle", key: bytes = b"a key", **changed: Any) -> AnonymizationPlan:
    chain = dataclasses.replace(CHAIN_PLAN, key=Secret("audit_chain.key", key), **changed)
    return dataclasses.replace(planned(MADE[algorithm]), chain=chain)


def run(of: AnonymizationPlan, size: int = 50, restored: AnonymizationPlan | None = None) -> RunOutputs:
    """Run two shards of one stream of 400 tuples in such blocks; ``restored``: from a snapshot after half of it."""
    runtime, main = FakeRuntime(), list[list[Any]]()
    harness = Harness(ShardFunction(of), runtime)
    whole = {shard: block(1000 * shard, 200, shard=shard) for shard in range(2)}
    for first in range(0, 200, size):
        if restored is not None and first == 100:
            main += harness.main
            harness = Harness(ShardFunction(restored), runtime)
        for shard, tuples in whole.items():
            rows = (np.arange(200) >= first) & (np.arange(200) < first + size)
            harness.element(KEY + shard, Block(shard=shard, **tuples.chosen(rows)).to_bytes())
    harness.advance(END)
    return outputs([*main, *harness.main])


def outputs(releases: list[list[Any]]) -> RunOutputs:
    """Return the rows as the sinks would hold them."""
    audit, released = [], []
    for release in releases:
        values = [value for value in release if not isinstance(value, list)]
        leading, generalization, link = values[:8], values[8:11], values[11:]
        audit.append(
            dict(zip(AUDIT.names, [*leading, 3, 2, None, *generalization, *(link or [None] * len(LINK))], strict=True))
        )
        for illness, visit in members(release):
            released.append(dict(zip(RELEASED.names, [*generalization, illness, str(visit)], strict=True)))
    policy = planned(MADE["castle"]).context.policy
    releases_of, closing = split_audit(pa.Table.from_pylist(audit, AUDIT))
    return RunOutputs(policy, pa.Table.from_pylist(released, RELEASED), releases_of, closing=closing)


@pytest.fixture(scope="module")
def plain() -> RunOutputs:
    """Return a run of CASTLE with a key that nothing disturbs."""
    return run(plan())


@pytest.mark.parametrize("delay", [0, 3_600_000], ids=["last watermark", "last watermark behind an interval join"])
def test_everything_leaves_and_the_chain_closes_once_at_the_end_of_event_time(delay: int) -> None:
    runtime = FakeRuntime()
    Harness(ShardFunction(plan()), runtime).element(KEY, block(0, 20).to_bytes())
    runtime.timers.add((2**63 - 1, KEY))  # a deadline behind the end
    harness = Harness(ShardFunction(plan()), runtime)
    harness.advance(2**63 - 1 - delay)
    found = outputs(harness.main)
    assert found.closing is not None
    assert found.closing.num_rows == 1
    totals = {name: amount for _, name, amount in harness.side["summary"]}
    assert len(totals) == len(harness.side["summary"])
    assert sum(len(members(release)) for release in harness.main[:-1]) == totals["released"]
    assert totals["released"] + len(harness.side.get("suppressed", [])) == 20


def log_of(audit: pa.Table, closing: pa.Table | None, chained: Chained = CHAINED) -> reader.Log:
    tables = [(audit, False)] if closing is None else [(audit, False), (closing, True)]
    return reader.read([reader.ChainedRows(rows, ends, rows.column_names, chained.key) for rows, ends in tables])


def members_of(found: RunOutputs, chained: Chained = CHAINED) -> list[reader.ChainSpan]:
    """Return the one form of members that a run has."""
    assert found.audit is not None
    names = [name for name in found.released.column_names if name not in found.generalization]
    return [reader.ChainSpan(chained, names, np.ones(found.audit.num_rows, np.bool_))]


def followed(found: RunOutputs, chained: Chained = CHAINED) -> dict[str, Check]:
    assert found.audit is not None
    log = log_of(found.audit, found.closing, chained)
    classes = ReleasedClasses.of(found)
    return {check.name: check for check in follow(found, found.audit, classes, log, members_of(found, chained))}


def links(found: RunOutputs) -> list[tuple[int, int, str]]:
    """Return the position of the chain behind each release."""
    assert found.audit is not None
    return sorted(zip(*(found.audit[name].to_pylist() for name in ("shard", "release_id", "chain")), strict=True))


@pytest.mark.parametrize("algorithm", MADE)
def test_a_chain_holds_and_does_not_depend_on_how_blocks_are_cut(algorithm: str) -> None:
    found = run(plan(algorithm))
    assert {name: check.outcome for name, check in followed(found).items()} == dict.fromkeys(
        ("chain", "starts", "values"), HOLDS
    )
    assert len(found.audit or ()) > 10
    assert links(run(plan(algorithm), size=25)) == links(found)
    assert links(run(plan(algorithm, key=b"another"))) != links(found)


@pytest.mark.parametrize("algorithm", MADE)
def test_a_chain_goes_on_after_a_restore_and_tells_of_it(algorithm: str) -> None:
    found = run(plan(algorithm), restored=plan(algorithm, version="2"))
    checks = followed(found)
    assert {check.outcome for check in checks.values()} == {HOLDS}
    assert "1 (2 shards begun or restored), 2 (2 shards begun or restored)" in checks["starts"].words
    assert found.audit is not None
    starts = found.audit.select(["shard", "chain_start", "chain_version"]).to_pylist()
    versions = [(row["shard"], row["chain_start"], row["chain_version"]) for row in starts if row["chain_version"]]
    assert sorted(versions) == [(0, 0, "1"), (0, 1, "2"), (1, 0, "1"), (1, 1, "2")]
    assert ended(found).outcome == HOLDS
    # The releases are those of a run without a chain.
    plain = run(plan(algorithm))
    assert plain.released.equals(found.released)


def test_a_chain_that_was_off_for_a_time_begins_anew() -> None:
    runtime = FakeRuntime()
    unchained = dataclasses.replace(plan(), chain=None)
    harness = Harness(ShardFunction(unchained), runtime)
    harness.element(KEY, block(0, 100).to_bytes())
    gone = len(harness.main)
    assert gone > 0
    assert not any(name == "chain" for _, name in runtime.state)
    harness = Harness(ShardFunction(plan()), runtime)
    harness.element(KEY, block(100, 100).to_bytes())
    found = outputs(harness.main)
    assert found.audit is not None
    assert followed(found)["chain"].outcome == HOLDS
    assert reader.beginnings(log_of(found.audit, found.closing)) == {0: gone}
    # No other release can pass for the one it began with.
    later = dataclasses.replace(found, audit=found.audit.filter(pc.greater(found.audit["release_id"], gone)))
    assert reader.beginnings(log_of(later.audit, found.closing)) == {}
    chain = followed(later)["chain"]
    assert [(finding.release, "gone" in finding.text) for finding in chain.findings] == [(gone, True)]


def test_releases_without_a_chain_are_counted_and_no_success_where_they_follow_one(plain: RunOutputs) -> None:
    runtime = FakeRuntime()
    harness = Harness(ShardFunction(dataclasses.replace(plan(), chain=None)), runtime)
    harness.element(KEY, block(0, 100).to_bytes())
    main = harness.main
    harness = Harness(ShardFunction(dataclasses.replace(plan(), keys=(KEY,))), runtime)
    harness.element(KEY, block(100, 100).to_bytes())
    harness.advance(END)
    given = [dataclasses.replace(GUARANTEES, shards=1, name="after.yaml")]
    given += [dataclasses.replace(given[0], chained=None, name="before.yaml")]
    found = outputs([*main, *harness.main])
    for order in (given, given[::-1]):
        verdict = verify(found, order)
        assert verdict.outcome == HOLDS
        (unchained,) = [check for check in verdict.checks if check.name == "chain under before.yaml"]
        assert (unchained.outcome, unchained.words) == (
            UNSEEN,
            f"{len(main)} releases have no chain: anyone can change or add them",
        )
    assert found.audit is not None
    last = found.audit.num_rows - 1
    forged = tampered(dataclasses.replace(found, closing=None), last, **dict.fromkeys(LINK))
    (unchained,) = [check for check in verify(forged, given).checks if check.name == "chain under before.yaml"]
    assert unchained.outcome == UNCHECKED
    assert unchained.words.endswith("1 of them follow a release of their shard that has one")


def tampered(found: RunOutputs, place: int, **values: Any) -> RunOutputs:
    assert found.audit is not None
    rows = found.audit.to_pylist()
    rows[place] |= values
    return dataclasses.replace(found, audit=pa.Table.from_pylist(rows, AUDIT))


@pytest.mark.parametrize(
    "change",
    [
        *({"event_time": 5}, {"kind": "widened"}, {"subjects": 99}, {"loss": 0.125}, {"k": 2}, {"phi": 7.5}),
        *({"age_max": 99.5}, {"group": "*"}, {"chain_members": "0" * 32}, {"chain_version": "0"}, {"event_time": None}),
    ],
    ids=str,
)
def test_a_changed_release_is_named(plain: RunOutputs, change: dict[str, Any]) -> None:
    found = tampered(plain, 5, **change)
    assert found.audit is not None
    row = found.audit.to_pylist()[5]
    (finding,) = followed(found)["chain"].findings
    assert (finding.shard, finding.release) == (row["shard"], row["release_id"])
    assert "was changed" in finding.text


def test_a_removed_and_an_added_release_are_named(plain: RunOutputs) -> None:
    found = plain
    assert found.audit is not None
    rows = found.audit.to_pylist()
    gone = next(row for row in rows if row["release_id"] == 3)
    rows.remove(gone)
    last = max((row for row in rows if row["shard"] == 1), key=lambda row: row["release_id"])
    rows.append({**last, "release_id": last["release_id"] + 1})
    (removed, added) = sorted(
        followed(dataclasses.replace(found, audit=pa.Table.from_pylist(rows, AUDIT)))["chain"].findings,
        key=lambda finding: (finding.shard != gone["shard"], finding.release),
    )[:2]
    release_ids = {(finding.shard, finding.release) for finding in (removed, added)}
    assert release_ids == {(gone["shard"], 3), (1, last["release_id"] + 1)}


def test_values_that_were_exchanged_are_found_by_the_releases_they_left_in(plain: RunOutputs) -> None:
    found = plain
    rows = found.released.to_pylist()
    one = rows[0]
    other = next(r for r in rows if r["illness"] != one["illness"] and r["age_min"] != one["age_min"])
    one["illness"], other["illness"] = other["illness"], one["illness"]
    checks = followed(dataclasses.replace(found, released=pa.Table.from_pylist(rows, RELEASED)))
    assert len(checks["values"].findings) == 2
    assert checks["chain"].outcome == HOLDS


def test_without_a_key_nothing_is_told_of_values_and_a_wrong_one_is_told_once() -> None:
    found = run(plan(key=b""))
    assert found.audit is not None
    assert found.audit["chain_members"].null_count == found.audit.num_rows
    checks = followed(found, dataclasses.replace(CHAINED, key=b""))
    assert (checks["chain"].outcome, checks["values"].outcome) == (HOLDS, UNSEEN)
    wrong = followed(found)["chain"]
    assert wrong.outcome == BROKEN
    assert [finding.text.partition(":")[0] for finding in wrong.findings] == ["no release fits the chain"]
    assert [head.shard for head in heads(log_of(found.audit, found.closing))] == [0, 1]


def test_another_policy_is_told_by_where_it_began(plain: RunOutputs) -> None:
    checks = followed(plain, dataclasses.replace(CHAINED, policy="another"))
    assert {(finding.shard, finding.release) for finding in checks["starts"].findings} == {(0, 0), (1, 0)}


def of_run(found: RunOutputs, run: str | None = None, chained: Chained = CHAINED) -> Check:
    assert found.audit is not None
    tables = [found.audit] if found.closing is None else [found.audit, found.closing]
    return reader.of_run(tables, found.further.get("summary"), has_key=bool(chained.key), run=run)


def test_a_chain_states_its_run_and_another_run_in_its_place_is_found(plain: RunOutputs) -> None:
    other = run(plan(run="00000000000000b2"))
    assert plain.released.equals(other.released)
    assert (of_run(plain).outcome, of_run(plain, RUN).outcome) == (UNSEEN, HOLDS)
    assert RUN in of_run(plain).words
    assert {(f.shard, f.text) for f in of_run(other, RUN).findings} == {
        (shard, f"start 0 is of another run than {RUN}") for shard in (0, 1)
    }
    # The shards of two runs, each with its whole chain.
    assert other.audit is not None
    assert plain.audit is not None
    assert plain.closing is not None
    assert other.closing is not None
    first, second = pc.equal(plain.audit["shard"], 0), pc.equal(other.audit["shard"], 1)
    mixed = dataclasses.replace(
        plain,
        audit=pa.concat_tables([plain.audit.filter(first), other.audit.filter(second)]),
        closing=pa.concat_tables([plain.closing.filter(FIRST), other.closing.filter(~FIRST)]),
    )
    assert followed(mixed)["chain"].outcome == ended(mixed).outcome == HOLDS
    assert {finding.shard for finding in of_run(mixed).findings} == {1}
    assert what_is_broken(mixed) == {("run", 1)}
    # A statement that was exchanged is found by its hash.
    (changed,) = followed(tampered(plain, 0, chain_run="00000000000000b2"))["chain"].findings
    assert "was changed" in changed.text
    summary = pa.table({"shard": [0], "name": ["run.00000000000000b2"], "amount": [1.0]})
    (finding,) = of_run(dataclasses.replace(plain, further={"summary": summary})).findings
    assert finding.text == f"the summary is of another run than {RUN}"
    assert of_run(dataclasses.replace(plain, audit=plain.audit.slice(0, 0), closing=None), RUN).outcome == UNCHECKED
    assert (
        "anyone with write access can state any run"
        in of_run(plain, chained=dataclasses.replace(CHAINED, key=b"")).words
    )


def test_a_restored_job_continues_its_run_also_in_a_shard_that_had_no_tuple() -> None:
    numbered = dataclasses.replace(plan(), keys=(KEY, KEY + 1))
    runtime = FakeRuntime()
    harness = Harness(ShardFunction(numbered), runtime)
    for key in numbered.numbers:
        harness.element(key, None)  # type: ignore[arg-type]
    harness.element(KEY, block(0, 100).to_bytes())
    main = harness.main
    restored = dataclasses.replace(plan(run="00000000000000b2"), keys=numbered.keys)
    harness = Harness(ShardFunction(restored), runtime)
    harness.element(KEY + 1, block(1000, 100, shard=1).to_bytes())
    harness.advance(END)
    found = outputs([*main, *harness.main])
    assert what_is_broken(found) == set()
    assert of_run(found, RUN).outcome == HOLDS
    assert {name for _, name, _ in harness.side["summary"] if name.startswith("run.")} == {f"run.{RUN}"}


def test_a_stored_chain_goes_on_with_its_run() -> None:
    stored = ChainState(b"head" * 8, 7, 2, "another")
    assert CHAIN_PLAN.begin(stored) == stored
    assert CHAIN_PLAN.begin() == ChainState(b"", 0, -1, RUN)


def test_a_column_that_a_restore_adds_is_hashed_by_its_form() -> None:
    rows = [{"chain_forms": text} for text in ("a=text b=float", None, "a=text c=double", "a=text c=double", "a=time")]
    assert reader._forms([pa.Table.from_pylist(rows)]) == {"a": "text", "b": "float", "c": "double"}


def test_other_settings_are_told_unless_a_restore_has_changed_them(plain: RunOutputs) -> None:
    other = dataclasses.replace(CHAINED, settings="other")
    (finding,) = followed(plain, other)["starts"].findings
    assert finding.text.startswith("no start was under the privacy models")
    found = run(plan(), restored=plan(settings="other"))
    assert followed(found, other)["starts"].outcome == HOLDS
    assert "2 starts were under other settings" in followed(found, other)["starts"].words


def test_the_end_of_a_chain_must_be_there_later(plain: RunOutputs) -> None:
    assert plain.audit is not None
    assert plain.closing is not None
    closed = heads(log_of(plain.audit, plain.closing))
    assert reader.still_there(log_of(plain.audit, plain.closing), closed).findings == ()
    (gone, _) = reader.still_there(log_of(plain.audit, None), closed).findings
    assert (gone.shard, gone.release) == (0, None)
    assert gone.text == f"the closing record behind {closed[0].release} releases existed earlier, and is gone"

    ends = heads(log_of(plain.audit, None))  # as they were before the input ended
    assert reader.still_there(log_of(plain.audit, plain.closing), ends).findings == ()
    first, *_ = ends
    rest = plain.audit.filter(pc.not_equal(plain.audit["chain"], first.chain))
    (gone,) = reader.still_there(log_of(rest, plain.closing), ends).findings
    assert (gone.shard, gone.release, gone.text) == (0, first.release, "existed earlier, and is gone")
    another = Head(first.shard, first.release, "0" * 64)
    (other,) = reader.still_there(log_of(plain.audit, plain.closing), [another]).findings
    assert other.text == "existed earlier, with another chain"


GUARANTEES = Guarantees(
    planned(MADE["castle"]).context.policy,
    Privacy(3, 2),
    {"k": 3, "l": 2, "phi": None},
    2,
    generalizes=False,
    noise=False,
    chained=CHAINED,
)


def ended(found: RunOutputs, *, runs_on: bool = False) -> Check:
    assert found.audit is not None
    return reader.end(log_of(found.audit, found.closing), 2, runs_on=runs_on)


def what_is_broken(found: RunOutputs) -> set[tuple[str, int | None]]:
    """Statements of a verdict, and the shards of their findings."""
    return {(check.name, finding.shard) for check in verify(found, GUARANTEES).checks for finding in check.findings}


@pytest.mark.parametrize("algorithm", MADE)
def test_each_shard_ends_with_a_closing_record_that_counts_what_left(algorithm: str) -> None:
    found = run(plan(algorithm))
    assert found.audit is not None
    assert found.closing is not None
    assert ended(found).outcome == HOLDS
    assert what_is_broken(found) == set()
    for row in found.closing.to_pylist():
        of = found.audit.filter(pc.equal(found.audit["shard"], row["shard"]))
        assert row["release_id"] == of.num_rows
        counts = dict(pair.split("=") for pair in row["chain_members"].split(" "))
        assert int(counts["tuples_in"]) == 200
        assert int(counts["released"]) == pc.sum(of["tuples"]).as_py()
        assert {name for name in AUDIT.names if row[name] is not None} == {
            *("release_id", "shard", "kind", "k", "l", "chain_start", "chain_members", "chain")
        }


FIRST = pc.field("shard") == 0


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("last release", {("release ids", 0), ("chain", 0)}),
        ("last releases and record", {("end", 0)}),
        ("record", {("end", 0)}),
        ("shard", {("end", 0)}),
        ("count", {("chain", 0)}),
        ("moved back", {("chain", 0), ("counts", 0)}),
        ("moved to the other shard", {("chain", 1), ("end", 0)}),
    ],
)
def test_an_end_that_is_cut_off_or_changed_is_seen(
    plain: RunOutputs, change: str, broken: set[tuple[str, int]]
) -> None:
    assert plain.audit is not None
    assert plain.closing is not None
    audit, closing = plain.audit, plain.closing
    count = audit.filter(FIRST).num_rows
    rows = closing.to_pylist()
    if change == "last release":
        audit = audit.filter(~(FIRST & (pc.field("release_id") == count - 1)))
    elif change == "last releases and record":
        audit, rows = audit.filter(~(FIRST & (pc.field("release_id") > count - 4))), rows[1:]
    elif change == "record":
        rows = rows[1:]
    elif change == "shard":
        audit, rows = audit.filter(~FIRST), rows[1:]
    elif change == "count":
        rows[0]["chain_members"] = rows[0]["chain_members"].replace("tuples_in=200", "tuples_in=201")
    elif change == "moved back":
        audit = audit.filter(~(FIRST & (pc.field("release_id") > count - 4)))
        rows[0]["release_id"] = count - 3
    else:
        rows[0]["shard"] = 1
    # An attacker who removes releases removes their rows too.
    names = ["age_min", "age_max", "group"]
    left = set(zip(*(audit[name].to_pylist() for name in names), strict=True))
    released = [row for row in plain.released.to_pylist() if tuple(row[name] for name in names) in left]
    changed = dataclasses.replace(
        plain,
        released=pa.Table.from_pylist(released, RELEASED),
        audit=audit,
        closing=pa.Table.from_pylist(rows, AUDIT),
    )
    assert broken <= what_is_broken(changed)


def test_without_any_closing_record_the_end_is_not_checked_and_it_is_told_how_far_the_chain_reaches(
    plain: RunOutputs,
) -> None:
    assert plain.audit is not None
    assert plain.closing is not None
    open_end = dataclasses.replace(plain, closing=plain.closing.slice(0, 0))
    assert what_is_broken(open_end) == set()
    found = verify(open_end, GUARANTEES)
    assert found.outcome == UNCHECKED
    ending = ended(open_end)
    assert ending.outcome == UNCHECKED
    last = max(plain.audit.filter(FIRST).to_pylist(), key=lambda row: row["release_id"])
    time = str(np.datetime64(last["event_time"], "ms").astype("datetime64[m]")).replace("T", " ")
    assert f"it reaches up to release {last['release_id']} of shard 0 (event time {time}), release" in ending.words
    assert ended(open_end, runs_on=True).outcome == UNSEEN
    assert verify(open_end, GUARANTEES, runs_on=True).outcome == HOLDS


def test_a_job_goes_on_behind_a_closing_record() -> None:
    runtime, main = FakeRuntime(), list[list[Any]]()
    for part in range(3):  # drained twice, with new tuples of one shard only in between
        harness = Harness(ShardFunction(plan()), runtime)
        for shard in (0, 1) if part == 0 else (0,):
            harness.element(KEY + shard, block(1000 * shard + 100 * part, 100, shard=shard).to_bytes())
        if part < 2:
            harness.advance(END)
        main += harness.main
    found = outputs(main)
    checks = followed(found)
    assert {check.outcome for check in checks.values()} == {HOLDS}
    assert found.closing is not None
    assert sorted(zip(found.closing["shard"].to_pylist(), found.closing["chain_start"].to_pylist(), strict=True)) == [
        *((0, 0), (0, 1), (1, 0))
    ]
    assert what_is_broken(found) == set()
    assert ended(found).outcome == UNCHECKED
    assert "went on after an end" in ended(found).words
    for place in range(2):  # either closing record of the shard that went on
        rows = found.closing.filter(FIRST).to_pylist()
        rows.pop(place)
        rows += found.closing.filter(~FIRST).to_pylist()
        less = dataclasses.replace(found, closing=pa.Table.from_pylist(rows, AUDIT))
        assert ("chain", 0) in what_is_broken(less)


def test_a_shard_that_never_got_a_tuple_has_a_closing_record_too() -> None:
    numbered = dataclasses.replace(plan(), keys=(KEY, KEY + 1))
    runtime = FakeRuntime()
    harness = Harness(ShardFunction(numbered), runtime)
    for key in numbered.numbers:
        harness.element(key, None)  # type: ignore[arg-type]
    harness.element(KEY, block(0, 100).to_bytes())
    main = harness.main
    harness = Harness(ShardFunction(numbered), runtime)  # its timer is all that a restored job knows of it
    harness.advance(END)
    main += harness.main
    found = outputs(main)
    assert what_is_broken(found) == set()
    assert ended(found).outcome == HOLDS
    assert found.closing is not None
    closings = {row["shard"]: (row["release_id"], row["chain_members"]) for row in found.closing.to_pylist()}
    assert closings[1] == (0, "tuples_in=0 released=0")
    # A tuple that comes once the job goes on is chained behind it.
    harness = Harness(ShardFunction(numbered), runtime)
    harness.element(KEY + 1, block(1000, 100, shard=1).to_bytes())
    assert harness.main
    assert what_is_broken(outputs([*main, *harness.main])) == set()


def test_a_summary_that_is_gone_is_seen_where_the_chain_has_ended(plain: RunOutputs) -> None:
    schema = pa.schema([("shard", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
    empty = dataclasses.replace(plain, further={"summary": schema.empty_table()})
    assert what_is_broken(empty) == {("counts", 0), ("counts", 1)}

    # A log without a closing record is held to its summary.
    assert plain.audit is not None
    assert plain.closing is not None
    (record,) = plain.closing.filter(FIRST).to_pylist()
    totals = [{"shard": 0, "name": name, "amount": n} for name, n in reader._counts(record["chain_members"]).items()]
    summary = {"summary": pa.Table.from_pylist(totals, schema)}
    without = dataclasses.replace(plain, closing=plain.closing.slice(0, 0), further=summary)
    assert what_is_broken(without) == set()
    last = FIRST & (pc.field("release_id") == record["release_id"] - 1)
    without = dataclasses.replace(without, audit=plain.audit.filter(~last))
    assert ("counts", 0) in what_is_broken(without)


def test_the_hashes_of_a_chain_are_fixed_and_a_closing_record_is_hashed_as_is_documented() -> None:
    of = dataclasses.replace(CHAIN_PLAN, members=CHAIN_PLAN.members[:1])
    made = writer.Chain(of, pa.schema([("illness", pa.string())]), of.begin())
    leading: list[list[Any]] = [
        [0, 1],
        [0, 0],
        [1000, None],
        ["cluster", "reused"],
        [3, 3],
        [3, 1],
        [2, 2],
        [0.1, 0.25],
    ]
    generalization = [[1, 1], [2.5, 2.5], ["ab", "ab"]]
    *_, sums, chain = made.columns(leading, generalization, [["flu", "gout", None, "flu"]], [0, 3, 4])
    assert sums == ["1fe7a96d1d68717fc14acf35e1328f82", "ecf7101058724386b7a62d6eb8c578d8"]
    assert chain == [
        "dff894c43839fe5c26f84cfe31cc393ae33b94d067dd892a4e36086d60ed95d5",
        "a87d4c9c9ac2cfc893447aacd61da68bd4f8322507d7cd2cc45d1a01feb120d3",
    ]
    counts = {"tuples_in": 4, "released": 4, "suppressed.alpha:my col=1": 2}
    *_, text, link = made.close([2, 0, None, "closing", *[None] * 4], [None] * 3, counts)
    assert text == "tuples_in=4 released=4 suppressed.alpha:my%20col%3D1=2"
    assert reader._counts(text) == counts
    fields = [chain[-1], "2", "0", "", "closing", *[""] * 4, "3", "2", "", *[""] * 3, "0", *[""] * 6, text]
    content = "release" + "".join(f"{len(field.encode())}:{field}" for field in fields)
    assert link == hmac.digest(b"a key", content.encode(), "sha256").hex()


FORMS: tuple[Form, ...] = ("text", "time", "decimal", "double", "float")


def hashed(value: Any, form: Form, kind: pa.DataType) -> str:
    """Return what the writer hashes of a value of a published column."""
    return writer._as_text(kind, ChainColumn("", form))(value)


@given(st.floats(width=64), st.floats(width=32))
def test_a_number_is_hashed_alike_however_it_is_written(number: float, single: float) -> None:
    of_audit = writer._as_published(ChainColumn("", "double"))(number)
    as_text = hashed(number, "double", pa.float64())
    assert reader._text(number) == as_text == of_audit
    assert reader._text(single, single=True) == writer._as_published(ChainColumn("", "float"))(single)
    if isfinite(number):
        for text in (repr(number), f"{number:.17E}", f"{number:.1f}" if number.is_integer() else repr(number)):
            assert reader._published(text, "double") == as_text
    for text in (str(np.float32(single)), repr(single)):
        assert reader._published(text.replace("inf", "Infinity").replace("nan", "NaN"), "float") == hashed(
            single, "float", pa.float64()
        )


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**30), max_value=10**30))
def test_a_decimal_is_hashed_alike_however_it_is_written_and_to_its_last_digit(number: Decimal) -> None:
    as_text = hashed(str(number), "decimal", pa.string())
    assert Decimal(as_text) == number
    for text in (str(number), f"{number:f}", f"{number:.40E}", f"{number:f}000", f"{number * 10:f}"):
        assert (reader._published(text, "decimal") == as_text) == (Decimal(text) == number)
    assert hashed(int(number), "decimal", pa.int64()) == str(int(number))


@given(st.text() | st.from_regex(r"-?\d{1,5}(\.\d{1,4})?([eE][+-]?\d)?", fullmatch=True))
def test_a_text_is_hashed_as_it_is(text: str) -> None:
    assert reader._published(text, "text") == hashed(text, "text", pa.string()) == text
    assert reader._published(text, "time") == hashed(text, "time", pa.string())


def test_different_published_values_have_different_hashes() -> None:
    texts = ("250", "250.0", "250.00", "2.5E2", "2024-03-01 08:00", "2024-03-01T08:00:00Z")
    assert len({reader._published(text, "text") for text in texts}) == len(texts)
    numbers = ("0.1", "0.100000001", "16777217.25", "16777217.5", "1e-300", "2e-300")
    for form in ("double", "decimal"):
        assert len({reader._published(text, form) for text in numbers}) == len(numbers)
    assert len({reader._text(float(text)) for text in numbers}) == len(numbers)
    assert reader._published("1E+999999999", "decimal") == "1E+999999999"


def test_a_column_is_hashed_by_the_form_that_the_first_row_states() -> None:
    """A text of digits is no number, and a number is one however a sink writes it."""
    kinds = {"text": pa.string(), "decimal": pa.string(), "double": pa.float64(), "float": pa.float64()}
    shown = {"text": "250.0", "decimal": "250.50", "double": "0.1", "float": "0.1"}
    values = {"text": "250.0", "decimal": "250.5", "double": 0.1, "float": float(np.float32(0.1))}
    of = dataclasses.replace(
        CHAIN_PLAN,
        in_force=(),
        generalization=CHAIN_PLAN.generalization[:1],
        members=tuple(ChainColumn(form, form) for form in FORMS if form in kinds),
    )
    made = writer.Chain(of, pa.schema(list(kinds.items())), of.begin())
    own = made.columns([[0], [0], [1], ["cluster"], [1], [1]], [[3.0]], [[values[form]] for form in kinds], [0, 1])
    names = ("release_id", "shard", "event_time", "kind", "subjects", "tuples", "age_min", *LINK)
    row = dict(zip(names, [0, 0, 1, "cluster", 1, 1, 3.0, *(column[0] for column in own)], strict=True))
    audit = pa.Table.from_pylist([row])
    policy = planned(MADE["castle"]).context.policy

    def outcome(**changed: str) -> str:
        found = RunOutputs(policy, pa.Table.from_pylist([{"age_min": 3.0} | shown | changed]), audit)
        return reader._values(found, audit, ReleasedClasses.of(found), members_of(found)).outcome

    assert outcome() == outcome(decimal="250.5") == outcome(decimal="2.505E2", double="1E-1") == HOLDS
    for changed in ({"text": "250"}, {"text": "250.00"}, {"decimal": "250.51"}, {"double": "0.10000000001"}):
        assert outcome(**changed) == BROKEN, changed


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.booleans(), st.integers(0, 3))
def test_a_time_is_hashed_alike_in_every_format(time: datetime, zoned: bool, digits: int) -> None:
    time = time.replace(microsecond=time.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    milliseconds = (time - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    shown = hashed(milliseconds, "time", pa.timestamp("ms"))
    zone = "Z" if zoned else ""
    for text in (time.isoformat(), time.isoformat(" "), time.isoformat(" ", "milliseconds")):
        assert reader._published(text + zone, "time") == shown == hashed(text + zone, "time", pa.string())


def test_a_missing_value_and_its_text_have_one_hash() -> None:
    # A sink writes a missing value as its null text, and a reader may find either of them, or nothing.
    assert len(set(writer._Texts(str, "n/a").of([None, "n/a", ""]))) == 1
    assert len(set(writer._Texts(str, "n/a").of([None, "None"]))) == 2


def restored_with_other_settings() -> tuple[RunOutputs, list[reader.ChainSpan], Sequence[str]]:
    """Return a run of an older version that goes on with another k and key, and the columns of its later releases."""
    runtime, later = FakeRuntime(), Chained(b"another key", "other policy", "hierarchies", "other settings")
    parts: list[list[list[Any]]] = []
    new = dataclasses.replace(plan(key=later.key), chain=None)
    chain = dataclasses.replace(
        CHAIN_PLAN,
        key=Secret("audit_chain.key", later.key),
        in_force=("a hash", 4, 2, None),
        policy=later.policy,
        settings=later.settings,
    )
    for of, rows in ((plan(), range(100)), (dataclasses.replace(new, chain=chain), range(100, 200))):
        harness = Harness(ShardFunction(of), runtime)
        for shard in range(2):
            whole = block(1000 * shard, 200, shard=shard)
            harness.element(KEY + shard, Block(shard=shard, **whole.chosen(np.isin(np.arange(200), rows))).to_bytes())
        parts.append(harness.main)
    harness.advance(END)
    before, after = (outputs(part) for part in parts)
    assert before.audit is not None
    assert after.audit is not None
    assert after.closing is not None

    def stating(table: pa.Table) -> pa.Table:
        table = table.append_column("in_force", pa.array(["a hash"] * table.num_rows))
        return table.set_column(table.column_names.index("k"), "k", pa.array([4] * table.num_rows))

    audit = pa.concat_tables([before.audit, stating(after.audit)], promote_options="default")
    found = dataclasses.replace(
        before,
        audit=audit,
        released=pa.concat_tables([before.released, after.released]),
        closing=stating(after.closing),
    )
    is_former = np.arange(audit.num_rows) < before.audit.num_rows
    place = AUDIT.names.index("k")
    columns = [*AUDIT.names[:place], "in_force", *AUDIT.names[place:]]
    return found, [reader.ChainSpan(CHAINED, MEMBERS, is_former), reader.ChainSpan(later, MEMBERS, ~is_former)], columns


MEMBERS = ("illness", "visit")


@pytest.mark.parametrize("change", ["", "hash", "removed hash", "k", "value"])
def test_a_chain_goes_on_through_a_restore_with_other_settings(change: str) -> None:
    found, forms, columns = restored_with_other_settings()
    assert found.audit is not None
    rows, released = found.audit.to_pylist(), found.released.to_pylist()
    count = int(forms[0].own.sum())
    if change == "hash":
        rows[0]["in_force"] = "a hash"
    elif change == "removed hash":
        rows[count]["in_force"] = None
    elif change == "k":
        rows[count]["k"] = 3
    elif change == "value":
        released[0]["illness"] = "none of these"
    found = dataclasses.replace(
        found,
        audit=pa.Table.from_pylist(rows, found.audit.schema),
        released=pa.Table.from_pylist(released, found.released.schema),
    )
    assert found.audit is not None
    assert found.closing is not None
    is_former = found.audit["in_force"].is_null()
    former, later = found.audit.filter(is_former), found.audit.filter(pc.invert(is_former))
    log = reader.read(
        [
            reader.ChainedRows(former, False, AUDIT.names, CHAINED.key),
            reader.ChainedRows(later, False, columns, forms[1].chained.key),
            reader.ChainedRows(found.closing, True, columns, forms[1].chained.key),
        ]
    )
    checks = {check.name: check for check in follow(found, found.audit, ReleasedClasses.of(found), log, forms)}
    broken = {name for name, check in checks.items() if check.findings}
    assert broken == ({"values"} if change == "value" else {"chain"} if change else set())
    assert reader.end(log, 2, runs_on=False).outcome == HOLDS


def test_the_key_of_other_settings_proves_nothing() -> None:
    found, (former, later), columns = restored_with_other_settings()
    released = {"released": found.released.column_names}

    def is_broken(of_former: bytes, of_later: bytes) -> bool:
        before = dataclasses.replace(
            GUARANTEES,
            chained=dataclasses.replace(former.chained, key=of_former),
            name="before.yaml",
            columns={"audit": columns} | released,
        )
        after = dataclasses.replace(
            before,
            privacy=Privacy(4, 2),
            in_force=GUARANTEES.in_force | {"k": 4},
            chained=dataclasses.replace(later.chained, key=of_later),
            digest="a hash",
            name="after.yaml",
        )
        (chain,) = [check for check in verify(found, [before, after]).checks if check.name == "chain"]
        return chain.outcome == BROKEN

    assert not is_broken(former.chained.key, later.chained.key)
    assert is_broken(later.chained.key, former.chained.key)


def test_values_of_releases_with_a_key_are_judged_beside_those_without() -> None:
    found, (former, later), _ = restored_with_other_settings()
    assert found.audit is not None
    keyless = dataclasses.replace(former, chained=dataclasses.replace(former.chained, key=b""))
    checks = follow(found, found.audit, ReleasedClasses.of(found), {}, [keyless, later])
    values = {check.name: check for check in checks}["values"]
    assert values.outcome == HOLDS
    assert not values.words.startswith("of 0")
    assert "their releases have no key" in values.words


def test_values_of_releases_with_other_columns_are_told_apart_by_their_number() -> None:
    released = pa.table({"a": list("xyzw"), "b": list("1234"), "c": [None, None, "u", "v"]})
    audit = pa.table({"tuples": [2, 2]})
    classes = ReleasedClasses(
        np.zeros(4, np.int64), np.zeros(2, np.int64), 1, np.array(["cluster"] * 2, object), np.ones(2, np.bool_)
    )
    columns, kinds = [("a", "b"), ("a", "b", "c")], np.array([0, 1])

    def judged(
        table: pa.Table = released, forms: list[str | None] | None = None, kind_of: Any = kinds
    ) -> tuple[list[int], bool]:
        found = RunOutputs(planned(MADE["castle"]).context.policy, table, forms=forms)
        of = dataclasses.replace(classes, audit=np.zeros(len(kind_of), np.int64))
        kind_of_row, (known,) = reader._kinds_of_rows(found, audit, of, columns, np.array(kind_of))
        return kind_of_row.tolist(), bool(known)

    assert judged() == ([0, 0, 1, 1], True)
    waiting = released.set_column(2, "c", pa.array([None, None, None, "v"]))  # one was buffered at the restore
    assert judged(waiting) == ([0, 0, 0, 1], False)
    former, later = "a\nb", "a\nb\nc"
    assert judged(waiting, [former, former, later, later]) == ([0, 0, 1, 1], True)
    assert judged(waiting, [former, former, former, later]) == ([0, 0, 0, 1], True)  # one was changed: the sums differ
    assert judged(kind_of=[0, 0]) == ([0, 0, -1, -1], True)  # no release has such values
