"""Generated streams bring about every kind of release and every reason, so that the invariants are not empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.strategies import SearchStrategy

from crenel.anonymity.model.outcomes import LINKABLE, SUPPRESSIONS
from tests.anonymity.algorithms.ola.test_laws import OlaCase, ola_cases, published, run, windows
from tests.support import mondrian_drive
from tests.support.drive import judged
from tests.support.example_counts import reach
from tests.support.nearest_drive import nearest_cases
from tests.support.strategies import ONE_BY_ONE, Case, cases
from tests.support.window_drive import window_cases


def of_castle(case: Case) -> Counter[str]:
    _, _, checker = judged(case.setting, case.steps(ONE_BY_ONE))
    return checker.kinds + checker.reasons + checker.confidence


def of_suhdsa(case: Case) -> Counter[str]:
    _, counters, checker = judged(case.setting, case.steps(ONE_BY_ONE))
    carried = counters.longest_delay > (counters.size or 10**9)
    return checker.kinds + checker.reasons + checker.actions + checker.confidence + Counter(carried=int(carried))


def of_mondrian(case: Case) -> Counter[str]:
    _, counters, checker = judged(case.setting, case.steps(ONE_BY_ONE))
    parts, many = counters.releases["cluster"] > 2 * counters.windows, counters.windows > 2
    return checker.reasons + checker.confidence + Counter(parts=int(parts), windows=int(many))


def of_nearest(case: Case) -> Counter[str]:
    _, counters, _ = judged(case.setting, case.steps())
    diverse = case.setting.privacy.l > 1 and counters.releases["cluster"] > 1
    return Counter(counters.suppressed) + Counter(counters.releases) + Counter(l=int(diverse))


def of_ola(case: OlaCase) -> dict[str, bool]:
    outputs = run(case, 50)
    found, suppressed = published(outputs, next(iter(windows(case)), range(0)))
    reasons = {case.setting.privacy.reasons[reason] for out in outputs for reason in out.suppressed_reason}
    return {
        "some suppressed": bool(found and suppressed),
        "between": len(found) > 2 and len({node for nodes in found for node in nodes}) > 2,
        "nothing suppressed": len(found) > 1 and not suppressed,
        "linkable": LINKABLE in reasons and bool(found),
        "none is left": reasons == {LINKABLE} and len(windows(case)) == 1 and not found,
    }


FIRST = ["cluster", "merged", "split", "reused", "generalized"]
"""Kinds of releases without a lasting guarantee."""

FEW = ["too_few_subjects", "too_little_diversity"]
WAITED = ["waited on and left", "waited on and was suppressed"]
LAWS: list[tuple[Callable[[Any], Any], SearchStrategy[Any], list[str]]] = [
    (of_castle, cases(), [*FIRST, *SUPPRESSIONS]),
    (of_castle, cases(confident=True), ["lonely", *WAITED]),
    (of_suhdsa, window_cases(), ["cluster", "merged", *FEW, "swap", "merge", "carried"]),
    (of_suhdsa, window_cases(confident=True), ["lonely", *WAITED]),
    (of_mondrian, mondrian_drive.mondrian_cases(), ["parts", "windows", *FEW]),
    (of_mondrian, mondrian_drive.mondrian_cases(confident=True), ["lonely", "too few are left"]),
    (of_nearest, nearest_cases(), ["cluster", "reused", *FEW, "l"]),
    (of_ola, ola_cases(), ["some suppressed", "between", "nothing suppressed", "linkable", "none is left"]),
]


@pytest.mark.parametrize(
    ("of", "made", "event"),
    [pytest.param(of, made, event, id=f"{of.__name__} {event}") for of, made, events in LAWS for event in events],
)
def test_the_streams_of_the_laws_bring_about(of: Callable[[Any], Any], made: SearchStrategy[Any], event: str) -> None:
    reach(made, lambda case: of(case)[event] > 0)
