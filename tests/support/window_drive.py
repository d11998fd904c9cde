"""Drive of a SUHDSA shard in tests: tuples in, judged releases out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

from hypothesis import strategies as st

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.log import Repairs
from crenel.anonymity.algorithms.suhdsa.parameters import Adaptive, Target
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard, SuhdsaStep
from crenel.anonymity.algorithms.suhdsa.stored import SuhdsaSnapshot, initial_snapshot, read
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.durations import LONGEST
from crenel.state.shard import StoredShard
from tests.support.drive import KEY, Setting, taken
from tests.support.source import Step
from tests.support.strategies import Case, cases
from tests.support.window_checker import WindowChecker


@dataclass(frozen=True)
class WindowSetting(Setting):
    """Settings of a SUHDSA shard; its clock ticks a microsecond each time it is read."""

    algorithm: Suhdsa  # type: ignore[assignment]

    def shard(self, key: bytes = KEY, fingerprint: Mapping[str, str] | None = None) -> SuhdsaShard:
        """Return a shard of which nothing is stored."""
        return self._made(initial_snapshot(self.terms(fingerprint), 0, key), fingerprint)

    def again(self, stored: StoredShard, fingerprint: Mapping[str, str] | None = None, where: str = "") -> SuhdsaShard:
        """Return the shard that was stored."""
        return self._made(read(self.terms(fingerprint), stored, where), fingerprint)

    def _made(self, snapshot: SuhdsaSnapshot, fingerprint: Mapping[str, str] | None) -> SuhdsaShard:
        return SuhdsaShard(self.terms(fingerprint), snapshot, clock=count(0, 1000).__next__)

    def checker(self, key: bytes = KEY) -> WindowChecker:
        return WindowChecker(self.policy, self.privacy, self.algorithm)


def taken_by(setting: Setting, window: SuhdsaShard, step: Step) -> SuhdsaStep:
    """Return the result of a shard for one step."""
    found = taken(setting, window, step)
    assert isinstance(found, SuhdsaStep)
    return found


def take(setting: Setting, window: SuhdsaShard, step: Step) -> Releases:
    """Have a shard take one step, and return its releases."""
    return taken_by(setting, window, step).releases


def released_and_repairs(setting: Setting, window: SuhdsaShard, step: Step) -> tuple[Releases, Repairs]:
    """Have a shard take one step, and return its releases and its other results."""
    found = taken_by(setting, window, step)
    return found.releases, found.repairs


@st.composite
def window_parameters(draw: st.DrawFn, k: int, l: int, *, timed: bool, diverse: bool) -> Suhdsa:  # noqa: E741
    """Parameters at their edges and between them."""
    sizes = st.sampled_from((1, 2, 5, 8, 16, 16, 30, 30, 1000))
    times = st.sampled_from((0, 1, 5, 20, 100, LONGEST))
    bound = draw(st.sampled_from(("tuples", "event_time", "both"))) if timed else "tuples"
    tuples = None if bound == "event_time" else draw(sizes)
    event_time = None if bound == "tuples" else draw(times)
    by_tuples = (tuples or 0) + draw(st.sampled_from((0, 1, 10, 10_000))) if draw(st.booleans()) else None
    by_time = min((event_time or 0) + draw(times), LONGEST) if timed and draw(st.booleans()) else None
    target = Target(
        draw(st.integers(l, k)),
        draw(st.sampled_from((0.2, 1.0))),
        draw(st.sampled_from((0.0, 0.1))),
        draw(st.integers(0, 2)),
    )
    adaptive = None
    if tuples is not None and tuples >= k and draw(st.booleans()):
        adaptive = Adaptive(
            draw(st.integers(k, tuples)), draw(st.sampled_from((0.0, 0.5, 1.0))), draw(st.integers(1, 3))
        )
    return Suhdsa(
        tuples=tuples,
        event_time=event_time,
        distortion_weight=draw(st.sampled_from((0.0, 0.3, 0.7, 1.0))),
        neighbors=draw(st.sampled_from((1, 2, 3, 50))),
        growth_cap=draw(st.sampled_from((2, 2.5, 3, 10))),
        output=draw(st.sampled_from(("generalization", "representative"))),
        numeric=draw(st.sampled_from(("mean", "median"))),
        categorical=draw(st.sampled_from(("mode", "ancestor"))),
        target=target if diverse and draw(st.booleans()) else None,
        adaptive=adaptive,
        delay=None if by_tuples is by_time is None else Delay(by_tuples, by_time),
    )


@st.composite
def window_cases(
    draw: st.DrawFn,
    /,
    *,
    timed: bool | None = None,
    confident: bool | None = None,
    named: bool | None = None,
    **changed: object,
) -> Case:
    """Return a setting and a stream; ``changed`` are parameters that are not random, others as in ``cases``."""
    case = draw(cases(timed=timed, confident=confident, named=named))
    policy, privacy = case.setting.policy, case.setting.privacy
    weights = {a.name: draw(st.sampled_from((0.0, 1.0, 2.5))) for a in policy.attributes[:1]}
    drawn = draw(
        window_parameters(privacy.k, privacy.l, timed=policy.event_time is not None, diverse=len(policy.sensitive) > 0)
    )
    parameters = replace(drawn, weights=weights, **changed)  # type: ignore[arg-type]
    setting = WindowSetting(policy, privacy, parameters, case.setting.types)
    return Case(setting, case.rows, case.passed)
