"""Drive of a ``Mondrian`` in tests: tuples in, judged releases out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.durations import LONGEST
from tests.support.at_rest_checker import AtRestChecker
from tests.support.drive import KEY, Setting
from tests.support.strategies import Case, cases


@dataclass(frozen=True)
class MondrianSetting(Setting):
    """Settings of a Mondrian shard."""

    algorithm: Mondrian  # type: ignore[assignment]

    def checker(self, key: bytes = KEY) -> AtRestChecker:
        return AtRestChecker(self.policy, self.privacy, self.algorithm.window)


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
    event_time = draw(st.sampled_from((None, 0, 1, 5, 20, 100, LONGEST))) if policy.event_time else None
    window = Window(None if tuples is None else max(tuples, privacy.k), event_time)
    drawn = {"window": window, "cut": draw(st.sampled_from(("loss", "loss", "widest")))}
    parameters = Mondrian(**drawn | changed)
    return Case(MondrianSetting(policy, privacy, parameters, case.setting.types), case.rows, case.passed)
