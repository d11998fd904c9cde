"""Drive of a nearest release with a lasting guarantee in tests: tuples in, judged releases out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.privacy import Persons
from crenel.state.block import NO_TIME
from tests.support.checker import Gamma, Stated, Violation, expect
from tests.support.drive import KEY
from tests.support.nearest_drive import NearestChecker, NearestSetting, nearest_cases
from tests.support.source import Advance, Forget, Push, Step
from tests.support.space import Ranges
from tests.support.strategies import Case

_WIDENED = KINDS.index("widened")


class LastingChecker(NearestChecker):
    """Checker of nearest release, for first releases; an ``Observer`` judges later rows."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._known: set[Any] = set()  # who has left
        self._known_before: set[Any] = set()
        self._has_forgotten = False
        self._members_forgotten = 0  # at most
        self._watermark = NO_TIME

    def observe(self, step: Step, out: Releases, gamma: Gamma | None = None) -> None:
        self._known_before = set(self._known)
        if isinstance(step, Push | Advance):
            self._watermark = max(self._watermark, step.watermark)
        super().observe(step, out)
        self._linkable -= self._too_late()
        if isinstance(step, Forget):
            self._has_forgotten = True
            self._members_forgotten += len(self._known & set(step.subjects))
            self._known.difference_update(step.subjects)
            self._linkable = set()
        lasting = self.privacy.lasting
        # The product assumes the worst of persons who were forgotten on request. A set may have lost all its members.
        known = not self._has_forgotten or (self.privacy.l == 1 and self._members_forgotten < self.privacy.k)
        if self._linkable and known and (lasting is None or lasting.moved != "suppress"):
            raise Violation("a tuple was suppressed as linkable, though it may leave all the same")
        if not self._linkable <= self._due:
            raise Violation("a tuple was suppressed as linkable before it was due")

    def _find_due(self, watermark: int) -> set[int]:
        return super()._find_due(watermark) | self._too_late()

    def _too_late(self) -> set[int]:
        """Return the tuples of the step that come so late that their persons may have been forgotten."""
        lasting = self.privacy.lasting
        if lasting is None or lasting.horizon is None or self._watermark == NO_TIME:
            return set()
        step = max(lasting.horizon // 8, 1)
        until = self._watermark // step * step - step
        came = range(self._placed_before, len(self.rows))
        return {position for position in came if self.rows[position].event_time <= until}

    def _loss_before_rounding(self, members: Sequence[int], loss: float, possible: Sequence[Ranges]) -> float:
        """Accept any loss: it is that of a box around all latest values of the members' persons."""
        self._unsure |= self.space.on_a_grid
        return loss

    def _check_later(self, kind: int, stated: Stated, members: Sequence[int]) -> None:
        lasting = self.privacy.lasting
        assert lasting is not None
        if kind == _WIDENED and lasting.moved == "suppress":
            raise Violation("a generalization was widened where rows are to be suppressed")
        if stated.subjects < self.privacy.k and lasting.moved != "count":
            raise Violation(f"a later release has {stated.subjects} companions, fewer than k = {self.privacy.k}")
        if not {self.rows[position].subject for position in members} <= self._known:
            raise Violation("a row left as a later one of somebody who has not left before")

    def _check_cluster(self, stated: Stated, members: Sequence[int], loss: float) -> None:
        found = Stated(stated.box, self._subjects(members), self._diversity(members))
        self._check_models(found)
        self._check_models(stated)
        expect("subjects", stated.subjects, found.subjects)
        if len(members) > max(self.privacy.k, found.subjects) and self.privacy.l == 1:
            raise Violation(f"a release has {len(members)} members, where k = {self.privacy.k} were enough")
        self._ring[self._clusters % len(self._ring)] = loss
        self._clusters += 1
        self.omega.append(stated)
        self._known.update(self.rows[position].subject for position in members)

    def _check_reused(self, stated: Stated, members: Sequence[int]) -> None:
        super()._check_reused(stated, members)
        self._known.update(self.rows[position].subject for position in members)

    def _check_hopeless(
        self, position: int, reasons: Sequence[str], lower: set[int], upper: set[int], reusable: Iterable[Stated]
    ) -> None:
        """Judge a first row as ever; a later row is suppressed by earlier releases."""
        lasting, subject = self.privacy.lasting, self.rows[position].subject
        assert lasting is not None
        if lasting.horizon is not None or (subject in self._known and subject not in self._known_before):
            return
        if subject in self._known:
            if lasting.moved == "suppress" and self.algorithm.suppression == "generalize":
                return  # as what it was is not told
            if "too_little_diversity" not in reasons or self.privacy.l == 1:
                raise Violation(f"a later row was suppressed as {' or '.join(reasons)}, which it cannot be")
            return
        new = {p for p in lower if self.rows[p].subject not in self._known}
        super()._check_hopeless(
            position, reasons, new, {p for p in upper if self.rows[p].subject not in self._known_before}, ()
        )


@dataclass(frozen=True)
class LastingSetting(NearestSetting):
    """Settings of a shard with a lasting guarantee."""

    def checker(self, key: bytes = KEY) -> LastingChecker:
        return LastingChecker(self.policy, self.privacy, self.algorithm, key)


@st.composite
def lasting_cases(draw: st.DrawFn, /, *, moved: str | None = None, forgets: bool = False, **changed: Any) -> Case:
    """Return a setting and a stream, persons named; ``forgets``: there is a horizon."""
    if forgets:
        changed["delay"] = Delay(event_time=draw(st.sampled_from((0, 1, 5, 20))))
    case = draw(nearest_cases(timed=True if forgets else None, plain=True, **changed))
    horizon = draw(st.integers(max(changed["delay"].event_time, 1), 100)) if forgets else None
    lasting = Persons("lasting", horizon, moved or draw(st.sampled_from(("widen", "suppress", "count"))))
    old = case.setting
    setting = LastingSetting(old.policy, replace(old.privacy, persons=lasting), old.algorithm, old.types)
    return Case(setting, case.rows, case.passed)
