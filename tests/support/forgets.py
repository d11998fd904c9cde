"""Streams in which persons are forgotten, under any algorithm, with what is stored of the shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from crenel.anonymity.algorithm import Counters, Shard
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaStep
from crenel.anonymity.buffer.releases import Releases
from crenel.state.shard import StoredShard
from tests.support.checker import Checker
from tests.support.drive import KEY, Setting, gamma_of, taken
from tests.support.source import Forget, Push, Step
from tests.support.strategies import Case


def with_forgets(steps: Sequence[Step], forgets: Mapping[int, tuple[int, ...]]) -> Iterator[Step]:
    """Yield the same stream where some persons are forgotten once so many tuples have come, however it is cut."""
    came = 0
    for step in steps:
        if not isinstance(step, Push):
            yield step
            continue
        rest = step.rows
        for number in sorted(n for n in forgets if came < n <= came + len(step.rows)):
            part, rest = rest[: number - came], rest[number - came :]
            came += len(part)
            yield Push(part, step.watermark)
            yield Forget(forgets[number])
        came += len(rest)
        yield Push(rest, step.watermark)


@st.composite
def forgets_of(draw: st.DrawFn, case: Case) -> dict[int, tuple[int, ...]]:
    """Whom to forget after how many tuples: some who have come lately, and some who never come."""
    found: dict[int, tuple[int, ...]] = {}
    if case.rows:
        for number in draw(st.lists(st.integers(1, len(case.rows)), max_size=6, unique=True)):
            back = draw(st.lists(st.integers(1, 12), max_size=3))
            lately = [case.rows[max(number - steps, 0)].subject for steps in back]
            found[number] = (*(who for who in lately if isinstance(who, int)), 10**6)
    return found


class KeptAny:
    """A shard of any algorithm, with what lies in managed state of it after each step."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.shard: Shard = setting.algorithm.new(setting.terms(), 0, KEY)
        self.stored = StoredShard(b"", {})

    def take(self, step: Step) -> Releases:
        """Take one step."""
        found = taken(self.setting, self.shard, step)
        assert found.changes is not None
        self.stored = self.stored.after(found.changes)
        return found.releases

    def restore(self) -> None:
        """Go on from what is stored."""
        self.shard = self.setting.algorithm.restored(self.setting.terms(), self.stored, "key 3")

    def blobs(self) -> list[bytes]:
        """Return all stored bytes."""
        return [self.stored.shard, *(blob for held in self.stored.entries.values() for blob in held.values())]


def judged_any(setting: Setting, steps: Sequence[Step]) -> tuple[list[Releases], Counters]:
    """Run a new shard of any algorithm and have its checker judge it and its counters after every step."""
    shard: Any = setting.algorithm.new(setting.terms(), 0, KEY)
    checker: Any = setting.checker()
    outputs = []
    for step in steps:
        found = taken(setting, shard, step)
        if isinstance(checker, Checker):
            checker.observe(step, found.releases, gamma_of(shard))
            checker.agree(shard.counters)
        else:
            reports = (found.repairs,) if isinstance(found, SuhdsaStep) else ()
            checker.observe(step, found.releases, *reports)
            checker.agree(shard.counters, shard.next_deadline)
        outputs.append(found.releases)
    return outputs, shard.counters
