"""The repair log of CASTLE and nearest, in a fake runtime."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from typing import Any

import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.buffer.repair_rows import OUTPUT
from crenel.anonymity.builtin import ENTROPY_L
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import END, ShardFunction
from crenel.state.block import Block
from tests.support.fakes import Harness
from tests.support.operator_stream import KEY, block, planned, visits

LOGGED = frozenset({"repairs"})


def plan(
    algorithm: str, privacy: Privacy | None = None, logs: frozenset[str] = LOGGED, **chosen: Any
) -> AnonymizationPlan:
    given = {"delay": Delay(20), "reuse_limit": 20} | chosen
    made = planned(Castle(**given) if algorithm == "castle" else Nearest(**given))
    return dataclasses.replace(
        made, context=dataclasses.replace(made.context, logs=logs, privacy=privacy or Privacy(3, 3))
    )


def driven(made: AnonymizationPlan, tuples: int = 400, size: int = 50) -> Harness:
    harness, stream = Harness(ShardFunction(made)), block(0, tuples, shard=4)
    for first in range(0, tuples, size):
        harness.element(KEY, cut(stream, first, size).to_bytes())
    harness.advance(END)
    return harness


def cut(stream: Block, first: int, size: int) -> Block:
    names = ("numeric", "categorical", "subject", "sensitive", "event_time")
    columns = {name: getattr(stream, name)[first : first + size] for name in names}
    return dataclasses.replace(stream, **columns, members=stream.members.slice(first, size))


def log(harness: Harness) -> list[dict[str, Any]]:
    return [dict(zip(OUTPUT.columns, record, strict=True)) for record in harness.side.get("repairs", [])]


AUDIT = ("release_id", "shard", "event_time", "kind", "subjects", "tuples", "diversity", "loss", "low", "high", "group")


def audit(harness: Harness) -> dict[int, dict[str, Any]]:
    return {release[0]: dict(zip(AUDIT, release, strict=False)) for release in harness.main}


def suppressed(harness: Harness) -> dict[int, str]:
    """Return the reason of each suppressed tuple, by position."""
    found: dict[int, str] = {}
    for _, reasons, positions, _ in harness.side.get("suppressed", []):
        found |= dict(zip(positions, reasons, strict=True))
    return found


@pytest.mark.parametrize("algorithm", ["castle", "nearest"])
def test_each_release_and_each_suppressed_record_has_one_row_that_names_it(algorithm: str) -> None:
    harness = driven(plan(algorithm, Privacy(8, 3), delay=Delay(9)))
    rows, releases, withheld = log(harness), audit(harness), suppressed(harness)
    assert len(releases) > 5
    assert withheld
    assert [row["release_id"] for row in rows if row["position"] is None] == list(releases)
    assert [row["position"] for row in rows if row["release_id"] is None] == list(withheld)
    assert {row["shard"] for row in rows} == {4}
    assert not OUTPUT.columns.keys() & {"event_time", "kind", "subjects", "tuples", "loss"}  # those of audit
    decisions: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        if row["release_id"] is not None:
            decisions[row["first_release"]].append(row["release_id"])
            assert row["releases"] >= 1
        else:
            assert (row["first_release"], row["releases"]) == (None, 0)
    for first, released in decisions.items():
        assert released == list(range(first, first + len(released)))
    assert all(row["releases"] == len(decisions[row["first_release"]]) for row in rows if row["releases"])


def test_the_log_of_castle_tells_what_was_merged_split_and_reused_and_why() -> None:
    harness = driven(plan("castle"), 1000)
    rows, releases, kinds = log(harness), audit(harness), defaultdict(int)
    for row in rows:
        if row["release_id"] is None:
            assert row["lacked"] is not None
            continue
        release = releases[row["release_id"]]
        kinds[release["kind"]] += 1
        if release["kind"] == "reused":
            original = releases[row["reused_release"]]
            assert row["reused_release"] < row["release_id"]
            assert [original[name] for name in ("low", "high", "group")] == [
                release[name] for name in ("low", "high", "group")
            ]
            assert row["candidates"] >= 1
        else:
            assert row["reused_release"] is None
        if release["kind"] == "cluster":
            assert (row["lacked"], row["clusters"], row["releases"]) == (None, 1, 1)
            assert (row["tuples_before"], row["loss_before"]) == (release["tuples"], None)
            assert row["subjects_before"] == release["subjects"]
        if release["kind"] == "merged":
            assert row["clusters"] > 1
            assert row["tuples_before"] < release["tuples"]
            assert row["loss_before"] < release["loss"]
            lacks = "too_few_subjects" if row["subjects_before"] < 3 else "too_little_diversity"
            assert row["lacked"] == lacks
        if release["kind"] == "split":
            assert row["releases"] > 1
        assert (row["chosen"], row["all_buffered"]) == (None, None)
    assert min(kinds[kind] for kind in ("cluster", "merged", "split", "reused")) > 0
    assert {row["lacked"] for row in rows} == {None, "too_few_subjects", "too_little_diversity"}


def test_a_part_of_a_split_that_violates_a_model_joins_another_and_the_log_counts_it() -> None:
    privacy = Privacy(3, 1, models={"entropy_l": 1.9})
    harness = driven(plan("castle", privacy, delay=Delay(100), reuse_limit=0, max_clusters=3), 600)
    rows, releases = log(harness), audit(harness)
    joined = [row for row in rows if row["release_id"] is not None and row["parts_joined"]]
    assert joined
    for row in joined:
        # Each part has at least k = 3 records, so the parts before the join are at most a third of them.
        parts = row["releases"] + row["parts_joined"]
        members = [releases[row["first_release"] + i]["tuples"] for i in range(row["releases"])]
        assert 2 <= parts <= sum(members) // 3
        assert max(members) >= 6


def test_the_log_of_nearest_tells_what_a_group_needed_beyond_its_nearest() -> None:
    harness = driven(plan("nearest"), 1000)
    rows, releases = log(harness), audit(harness)
    grown = [row for row in rows if row["release_id"] is not None and row["reused_release"] is None]
    assert any(row["reused_release"] is not None for row in rows)
    assert any(row["chosen"] for row in grown)
    for row in grown:
        release = releases[row["release_id"]]
        assert (row["clusters"], row["parts_joined"]) == (None, None)
        assert (row["tuples_before"], row["subjects_before"]) == (3, 3)
        assert row["chosen"] < 3
        assert release["tuples"] > 3 or row["lacked"] is None
        assert (row["loss_before"] is None) == (row["lacked"] is None)
        assert row["loss_before"] is None or row["loss_before"] <= release["loss"] + 1e-9
    # Where groups of k nearly always leave enough values for all others, one that lacks nothing takes no more.
    harness = driven(plan("nearest", Privacy(3, 2)), 1000)
    releases = audit(harness)
    grown = [row for row in log(harness) if row["release_id"] is not None and row["reused_release"] is None]
    sizes = Counter(releases[row["release_id"]]["tuples"] for row in grown if row["lacked"] is None)
    assert sizes[3] > 0.95 * sizes.total()


def test_further_members_for_l_are_told_with_the_loss_without_them() -> None:
    harness = driven(plan("nearest", Privacy(3, 1, models={"entropy_l": 2.9}), reuse_limit=0, delay=Delay(40)), 400)
    rows, releases = log(harness), audit(harness)
    enlarged = [row for row in rows if row["release_id"] is not None and row["lacked"] is not None]
    assert enlarged
    for row in enlarged:
        assert row["lacked"] == ENTROPY_L.reason
        assert releases[row["release_id"]]["tuples"] > 3 == row["tuples_before"]
        assert row["loss_before"] <= releases[row["release_id"]]["loss"] + 1e-9


def test_a_record_published_without_detail_has_the_reason_of_its_suppression() -> None:
    harness = driven(plan("castle", Privacy(3, 2), suppression="generalize", reuse_limit=0))
    rows, releases = log(harness), audit(harness)
    alone = [row for row in rows if releases[row["release_id"]]["kind"] == "generalized"]
    assert "outlier" in {row["lacked"] for row in alone}
    assert "outlier" not in {row["lacked"] for row in rows if row not in alone}


def test_a_lasting_guarantee_and_noise_log_each_release_and_suppression() -> None:
    for privacy in (
        Privacy(3, 2, persons=Persons("lasting")),
        Privacy(3, 2, persons=Persons("lasting", moved="suppress")),
    ):
        harness = driven(plan("nearest", privacy))
        rows = log(harness)
        assert {row["release_id"] for row in rows} - {None} == audit(harness).keys()
        assert {row["position"] for row in rows} - {None} == suppressed(harness).keys()
        assert {release["kind"] for release in audit(harness).values()} & {"again", "widened"}


@pytest.mark.parametrize("algorithm", ["castle", "nearest"])
def test_without_a_reader_there_is_no_log_and_releases_are_the_same(algorithm: str) -> None:
    without, with_log = driven(plan(algorithm, logs=frozenset())), driven(plan(algorithm))
    assert "repairs" not in without.side
    assert log(with_log)
    assert without.main == with_log.main
    assert visits(without) == visits(with_log)


@pytest.mark.parametrize("algorithm", ["castle", "nearest"])
def test_the_log_does_not_depend_on_where_blocks_end(algorithm: str) -> None:
    # A burst, which enlarges the shard and lets it shrink again.
    made = plan(algorithm, delay=Delay(1500))
    whole = log(driven(made, 6000, 3000))
    assert len(whole) > 100
    assert whole == log(driven(made, 6000, 100))
