"""Drive of a ``Nearest`` in tests: tuples in, judged releases out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from tests.support.checker import Checker, Stated, Violation
from tests.support.drive import KEY, Setting
from tests.support.strategies import Case, cases


class NearestChecker(Checker):
    """Checker of CASTLE, without clusters: releases are of k persons, and of more only for l."""

    keeps_all = True

    def _check_cluster(self, stated: Stated, members: Sequence[int], loss: float) -> None:
        super()._check_cluster(stated, members, loss)
        if len(members) > self.privacy.k and self.privacy.l == 1:
            raise Violation(f"a release has {len(members)} members, where k = {self.privacy.k} were enough")

    def _agree_on_clusters(self, counters: Any) -> None:
        pass


@dataclass(frozen=True)
class NearestSetting(Setting):
    """Settings of a shard of nearest release."""

    algorithm: Nearest  # type: ignore[assignment]

    def checker(self, key: bytes = KEY) -> NearestChecker:
        return NearestChecker(self.policy, self.privacy, self.algorithm, key)


@st.composite
def nearest_parameters(draw: st.DrawFn, castle: Castle) -> Nearest:
    """Return the parameters that nearest shares with CASTLE, and some price of isolation."""
    price = draw(st.sampled_from((0.0, 0.55, 1.0)))
    shared = {f.name for f in fields(Nearest)} & {f.name for f in fields(castle)}
    return Nearest(isolation_price=price, **{name: getattr(castle, name) for name in shared})


@st.composite
def nearest_cases(
    draw: st.DrawFn,
    /,
    *,
    timed: bool | None = None,
    plain: bool = False,
    named: bool | None = None,
    **changed: Any,
) -> Case:
    """Return a setting and a stream; ``changed`` are parameters that are not random."""
    case = draw(cases(timed=timed, confident=False, plain=plain, named=named, **changed))
    old = case.setting
    setting = NearestSetting(old.policy, old.privacy, draw(nearest_parameters(old.algorithm)), old.types)
    return Case(setting, case.rows, case.passed)
