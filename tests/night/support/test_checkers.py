"""Both checkers accept a real run and refuse one that was changed in one place, so no invariant holds for nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.log import Repairs
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from tests.support.checker import Violation
from tests.support.drive import Setting, apply, gamma_of
from tests.support.source import IDENTITY, Push, Row
from tests.support.window_drive import WindowSetting, released_and_repairs

POLICY = Policy({"x": Numeric((0, 100))}, sensitive=("s",), passthrough=(IDENTITY,), subject="who")
TYPES = (pa.string(), pa.int64())
VALUES = zip([0.0, 1.0, 2.0, 90.0, 91.0, 92.0], "aaaabb", strict=True)
STEP = Push(tuple(Row((x,), (s, i), subject=i) for i, (x, s) in enumerate(VALUES)))
WINDOWS = WindowSetting(POLICY, Privacy(3, 2), Suhdsa(6, distortion_weight=1.0), TYPES)
CASTLE = Setting(POLICY, Privacy(3, 2), Castle(Delay(5)), TYPES)

Change = Callable[[Releases], Releases]


def of_castle(change: Change, privacy: Privacy) -> None:
    castle = CASTLE.shard()
    out = change(apply(CASTLE, castle, STEP))
    replace(CASTLE, privacy=privacy).checker().observe(STEP, out, gamma_of(castle))


def of_windows(change: Change, privacy: Privacy, part: str = "", **logged: Any) -> None:
    out, repairs = released_and_repairs(WINDOWS, WINDOWS.shard(), STEP)
    if part:
        log = getattr(repairs, part)
        wrong = {name: np.full_like(getattr(log, name), value) for name, value in logged.items()}
        repairs = replace(repairs, **{part: replace(log, **wrong)})
    assert isinstance(repairs, Repairs)
    replace(WINDOWS, privacy=privacy).checker().observe(STEP, change(out), repairs)


def changed(column: str, change: Callable[[Any], Any]) -> Change:
    return lambda out: replace(out, **{column: change(getattr(out, column).copy())})


def unchanged(out: Releases) -> Releases:
    return out


BROKEN: list[tuple[Change, Privacy, str]] = [
    (unchanged, Privacy(7, 2), "fewer than k = 7"),
    (unchanged, Privacy(3, 3), "than l"),
    (changed("lower", lambda lower: lower + 1), Privacy(3, 2), "outside|least generalization"),
    (changed("upper", lambda upper: upper + 1), Privacy(3, 2), "states a loss|least generalization"),
    (changed("subjects", lambda subjects: subjects + 1), Privacy(3, 2), "subjects"),
    (changed("diversity", lambda diversity: diversity + 1), Privacy(3, 2), "diversity"),
    (changed("loss", lambda loss: loss / 2), Privacy(3, 2), "states a loss"),
    (changed("event_time", lambda event_time: event_time + 1), Privacy(3, 2), "event time|newest member"),
    (changed("release_id", lambda ids: ids + 1), Privacy(3, 2), "release_id"),
    (
        lambda out: replace(out, members=(out.members[0][::-1], out.members[1])),
        Privacy(3, 2),
        "a published value|not the one that came",
    ),
    (
        lambda out: replace(out, members=tuple([*c[:1], *c[:-1]] for c in out.members)),
        Privacy(3, 2),
        "does not wait",
    ),
]


@pytest.mark.parametrize("judged", [of_castle, of_windows])
def test_a_changed_run_is_refused(judged: Callable[[Change, Privacy], None]) -> None:
    judged(unchanged, Privacy(3, 2))
    for change, privacy, message in BROKEN:
        with pytest.raises(Violation, match=message):
            judged(change, privacy)


@pytest.mark.parametrize(
    ("part", "column", "value", "message"),
    [
        ("windows", "lsr", 0.5, "not l-diverse"),
        ("windows", "entropy_least", 0.1, "entropies"),
        ("windows", "swaps", 2, "swaps"),
        ("windows", "unrepaired", 2, "more violating groups"),
        ("actions", "tuples_after", 9, "changes a group's size"),
        ("actions", "diversity_after", 1, "no more diverse"),
        ("actions", "inspected", 9, "more neighbors"),
    ],
)
def test_a_log_that_is_not_what_happened_is_refused(part: str, column: str, value: float, message: str) -> None:
    with pytest.raises(Violation, match=message):
        of_windows(unchanged, Privacy(3, 2), part, **{column: value})
