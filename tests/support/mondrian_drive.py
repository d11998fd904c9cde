"""Drive of a ``Mondrian`` in tests: tuples in, judged releases out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from crenel.anonymity.algorithm import Algorithm, Shard
from crenel.anonymity.algorithms.batch.windows import ClosedBy, ShardOfWindows, WindowsCounters
from crenel.anonymity.algorithms.mondrian.algorithm import MONDRIAN, MondrianParameters
from crenel.anonymity.buffer.releases import Releases
from crenel.state.shard import StoredShard
from tests.support.at_rest_checker import AtRestChecker
from tests.support.drive import KEY, Setting, taken
from tests.support.source import Step
from tests.support.strategies import Case, cases


@dataclass(frozen=True)
class MondrianSetting(Setting):
    """Settings of a Mondrian shard."""

    parameters: MondrianParameters  # type: ignore[assignment]
    algorithm: ClassVar[Algorithm] = MONDRIAN

    def shard(self, key: bytes = KEY) -> Shard:
        """Return a shard of which nothing is stored."""
        return self.algorithm.new(self.terms(), 0, key)

    def again(self, stored: StoredShard) -> Shard:
        """Return the shard that was stored."""
        return self.algorithm.restored(self.terms(), stored, "key 3")

    def checker(self) -> AtRestChecker:  # type: ignore[override]
        return AtRestChecker(self.policy, self.privacy, self.parameters.window)


class KeptShard:
    """A shard with what lies in managed state of it, after each step."""

    def __init__(self, setting: MondrianSetting) -> None:
        self.setting = setting
        self.shard = setting.shard()
        self.stored = StoredShard(b"", {})
        self.written = 0

    def take(self, step: Step) -> Releases:
        """Take one step."""
        found = taken(self.setting, self.shard, step)
        assert found.changes is not None
        self.stored = self.stored.after(found.changes)
        self.written += sum(len(blob or b"") for blob in found.changes.entries["blocks"].values())
        return found.releases

    def restore(self, setting: MondrianSetting | None = None) -> None:
        """Go on from what is stored, under other terms where they are given."""
        self.setting = setting or self.setting
        self.shard = self.setting.again(self.stored)


def judged(
    setting: MondrianSetting, steps: Iterable[Step], key: bytes = KEY
) -> tuple[list[Releases], WindowsCounters, AtRestChecker]:
    """Run a new shard and have the checker judge it and its counters after every step."""
    shard, checker, outputs = setting.shard(key), setting.checker(), []
    for step in steps:
        outputs.append(taken(setting, shard, step).releases)
        checker.observe(step, outputs[-1])
        assert isinstance(shard, ShardOfWindows)
        checker.agree(shard.counters, shard.next_deadline)
    assert isinstance(shard.counters, WindowsCounters)
    return outputs, shard.counters, checker


@st.composite
def mondrian_cases(
    draw: st.DrawFn,
    /,
    *,
    timed: bool | None = None,
    confident: bool | None = None,
    named: bool | None = None,
    **changed: Any,
) -> Case:
    """Return a setting and a stream; ``changed`` are parameters that are not random, others as in ``cases``."""
    case = draw(cases(timed=timed, confident=confident, named=named))
    policy, privacy = case.setting.policy, case.setting.privacy
    tuples = draw(st.sampled_from((None, privacy.k, privacy.k + 1, 2 * privacy.k, 16, 30, 30, 1000)))
    event_time = draw(st.sampled_from((None, 0, 1, 5, 20, 100, 2**62))) if policy.event_time else None
    window = ClosedBy(None if tuples is None else max(tuples, privacy.k), event_time)
    drawn = {"window": window, "cut": draw(st.sampled_from(("loss", "loss", "widest")))}
    parameters = MondrianParameters(**(drawn | changed))
    return Case(MondrianSetting(policy, privacy, parameters, case.setting.types), case.rows, case.passed)
