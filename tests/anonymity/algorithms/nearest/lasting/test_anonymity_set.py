"""Anonymity sets: their members, and releases after a person moves, stays away, or more is guaranteed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Numeric, by_name
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.outcomes import KINDS, LINKABLE
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.state.anonymity_sets import AnonymitySets
from crenel.state.codec import StateError
from crenel.state.shard import StoredShard
from tests.support.drive import Kept, hashes
from tests.support.lasting_drive import LastingSetting
from tests.support.nearest_drive import NearestSetting
from tests.support.source import IDENTITY, Advance, Finish, Push, Row

POLICY = Policy(
    by_name(tuple(Numeric((0.0, 99.0)).named(f"q{i}") for i in range(2))),
    sensitive=("illness",),
    passthrough=(IDENTITY,),
    subject="person",
    event_time="seen",
)
TYPES = (pa.string(), pa.int64())
AGAIN, WIDENED = KINDS.index("again"), KINDS.index("widened")


def setting(k: int = 3, l: int = 1, lasting: Persons | None = None, **given: Any) -> LastingSetting:  # noqa: E741
    reusing = {"delay": Delay(6, 1000), "reuse_limit": 1000}
    parameters = Nearest(**{**reusing, **given})
    return LastingSetting(POLICY, Privacy(k, l, persons=lasting or Persons("lasting")), parameters, TYPES)


class Stream:
    """Rows of persons, a tuple a step, through a shard that is stored."""

    def __init__(self, of: LastingSetting) -> None:
        self.shard, self.outputs, self._row = Kept(of), list[Releases](), 0

    def push(self, *persons: tuple[int, float], illness: str = "flu", time: int = 0) -> list[Releases]:
        """Push persons with a value, and return the releases."""
        first = len(self.outputs)
        for person, value in persons:
            row = Row((value, value), (illness, self._row), person, time)
            self._row += 1
            self.outputs.append(self.shard.take(Push((row,), time)))
        return self.outputs[first:]


def kinds(outputs: Sequence[Releases]) -> list[str]:
    return [KINDS[kind] for out in outputs for kind in out.kind.tolist()]


def found(of: LastingSetting) -> Stream:
    """Return a stream in which persons 0, 1 and 2 share an anonymity set, at 10, 20 and 30."""
    stream = Stream(of)
    stream.push((0, 10), (1, 20), (2, 30), (7, 90), (7, 90), (7, 90))
    assert kinds(stream.push((7, 90))) == ["cluster"]
    return stream


def test_later_rows_leave_under_the_same_generalization_with_what_waits_of_companions() -> None:
    stream = found(setting())
    out = stream.push((0, 10), (1, 20), (8, 95), (8, 95), (8, 95), (8, 95), (8, 95), (8, 95))
    (again,) = [one for one in out if AGAIN in one.kind]
    assert again.lower.tolist() == [[10.0, 10.0]]
    assert again.upper.tolist() == [[30.0, 30.0]]
    assert (again.subjects.tolist(), again.tuples.tolist()) == ([3], [2])


@pytest.mark.parametrize(
    ("moved", "kind", "upper", "size"), [("widen", "widened", 50.0, 3), ("count", "again", 30.0, 2)]
)
def test_a_companion_who_has_moved_widens_the_generalization_or_counts(
    moved: Any, kind: str, upper: float, size: int
) -> None:
    stream = found(setting(lasting=Persons("lasting", None, moved)))
    out = stream.push((0, 10), (1, 50), *[(8, 95)] * 6)
    first = next(one for one in out if set(one.kind.tolist()) & {AGAIN, WIDENED})
    assert KINDS[int(first.kind[0])] == kind
    assert (first.lower[0, 0], first.upper[0, 0], first.subjects[0]) == (10.0, upper, size)
    stream.shard.restore()
    assert stream.shard.live.counters.persons_below_k == 3 - size


def test_a_row_is_suppressed_as_linkable_where_nobody_may_move() -> None:
    of = setting(lasting=Persons("lasting", None, "suppress"))
    stream = found(of)
    stream.push((1, 50), (0, 10), *[(8, 95)] * 6)
    suppressed = stream.shard.live.counters.suppressed
    assert suppressed[LINKABLE] == 2  # who has moved, and a companion of theirs


def test_diversity_is_that_of_all_that_was_published_of_companions() -> None:
    of = setting(3, 2)
    stream = Stream(of)
    for person, illness in ((0, "flu"), (1, "cold"), (2, "gout"), *[(7, "flu")] * 4):
        stream.push((person, 90 if person == 7 else 10), illness=illness)
    assert kinds(stream.outputs) == ["cluster"]
    stream.push((1, 10), illness="flu")
    stream.push((2, 10), illness="flu")  # all three would have had it
    stream.push(*[(8, 95)] * 7, illness="cold")
    assert stream.shard.live.counters.suppressed["too_little_diversity"] == 1
    assert sum(int(out.tuples.sum()) for out in stream.outputs if AGAIN in out.kind) == 1


def test_whoever_stays_away_for_the_horizon_is_new_and_nothing_is_stored_of_them() -> None:
    of = setting(lasting=Persons("lasting", 10_000))
    stream = found(of)
    known = {0, 1, 2}
    assert subjects(stream.shard.stored) >= known
    stream.shard.take(Advance(30_000))
    assert not subjects(stream.shard.stored) & known
    out = stream.push((0, 10), (4, 12), (5, 14), *[(9, 95)] * 5, time=30_000)
    assert "again" not in kinds(out)


def subjects(stored: StoredShard) -> set[int]:
    """Return the persons with stored hashes."""
    held = [AnonymitySets.from_bytes(blob) for blob in stored.entries.get("anonymity_sets", {}).values()]
    return {names()[code] for entry in held for code in entry.subject.tolist()}


def names() -> dict[int, int]:
    """Persons by their hashes."""
    return {int(code): person for person, code in enumerate(hashes(list(range(20))).tolist())}


def test_a_second_restore_finds_all_that_the_first_one_found() -> None:
    stream = found(setting())
    stream.push((9, 50), time=3000)
    late = (Row((20.0, 20.0), ("flu", 100), 1, 3000), Row((60.0, 60.0), ("flu", 101), 9, 1))
    stream.shard.take(Push(late, 3000))  # what came last of person 9 leaves at once, and is stored beside person 1
    stream.shard.take(Advance(4000))  # whose row leaves under the old generalization, and 9 is forgotten
    for _ in range(2):
        stream.shard.restore()
        stream.shard.take(Advance(4000))
        assert persons(stream.shard) == {0: 0, 1: 3000, 2: 0}


def persons(kept: Kept) -> dict[int, int]:
    """Return the persons with an anonymity set, and the newest event time of each."""
    held = kept.live.arrays.persons
    rows = [row for row in range(int(held.now.used)) if held.group[row] >= 0]
    return {names()[int(held.subject[row])]: int(held.event_time[row]) for row in rows}


def test_more_that_is_promised_after_a_restore_holds_from_then_on() -> None:
    stream = found(setting())
    stream.shard.restore(setting(k=4))
    stream.push((0, 10), *[(8, 95)] * 7)
    assert stream.shard.live.counters.suppressed[LINKABLE] == 1


def test_companions_are_forgotten_where_the_promise_lasts_no_more() -> None:
    stream = found(setting())
    assert stream.shard.stored.entries["anonymity_sets"]
    of = setting()
    plain = NearestSetting(POLICY, replace(of.privacy, persons=None), of.algorithm, TYPES)
    stream.shard.restore(plain)
    stream.shard.take(Finish())
    assert not stream.shard.stored.entries["anonymity_sets"]
    stream.shard.restore(plain)


def test_damaged_companions_are_refused() -> None:
    stream = found(setting())
    stored = stream.shard.stored
    number, blob = next(iter(stored.entries["anonymity_sets"].items()))
    entry = AnonymitySets.from_bytes(blob)
    for broken in (replace(entry, leaf=entry.leaf[:, :0][:1]), replace(entry, value_count=entry.value_count + 1)):
        entries = {**stored.entries, "anonymity_sets": {**stored.entries["anonymity_sets"], number: broken.to_bytes()}}
        with pytest.raises(StateError, match="anonymity_sets state of shard 0"):
            setting().again(StoredShard(stored.shard, entries))


def test_an_entry_of_a_person_is_small_and_what_is_stored_is_bounded_by_who_is_known() -> None:
    policy = replace(
        POLICY,
        quasi_identifiers=by_name(tuple(Numeric((0.0, 99.0)).named(f"q{i}") for i in range(10))),
    )
    of = replace(setting(10, delay=Delay(200)), policy=policy)
    shard, chance, number = Kept(of), Random(2), 0
    values = [tuple(float(chance.randrange(100)) for _ in range(10)) for _ in range(400)]
    for _ in range(120):
        people = [chance.randrange(400) for _ in range(100)]
        rows = tuple(Row(values[p], ("flu", number + i), p, 0) for i, p in enumerate(people))
        number += 100
        shard.take(Push(rows, 0))
    held = shard.stored.entries["anonymity_sets"]
    standing = shard.live.arrays.persons.now.used
    assert standing > 390
    newest = max(held)
    assert len(held[newest]) / len(AnonymitySets.from_bytes(held[newest]).subject) < 400
    assert sum(len(AnonymitySets.from_bytes(blob).subject) for blob in held.values()) <= 4 * 440 + 1024 + 100
