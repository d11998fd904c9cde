"""The judge of windows can say no: each promise, broken in one place, is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.suhdsa.log import Repairs
from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaParameters
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from tests.support.checker import Violation
from tests.support.source import IDENTITY, Push, Row
from tests.support.window_checker import WindowChecker
from tests.support.window_drive import WindowSetting, released_and_repairs

POLICY = Policy((Numeric("x", (0, 100)),), sensitive=("s",), passthrough=(IDENTITY,), subject="who")
PARAMETERS = SuhdsaParameters(6, distortion_weight=1.0)
SETTING = WindowSetting(POLICY, Privacy(3, 2), PARAMETERS, (pa.string(), pa.int64()))
STEP = Push(
    tuple(
        Row((x,), (s, i), subject=i)
        for i, (x, s) in enumerate(zip([0.0, 1.0, 2.0, 90.0, 91.0, 92.0], "aaaabb", strict=True))
    )
)


def outcome() -> tuple[Releases, Repairs]:
    return released_and_repairs(SETTING, SETTING.window(), STEP)


def changed(column: str, change: Callable[[Any], Any]) -> Callable[[Releases], Releases]:
    """Return the same releases with one column otherwise."""
    return lambda out: replace(out, **{column: change(getattr(out, column).copy())})


def test_what_windows_do_is_found_right() -> None:
    out, repairs = outcome()
    assert len(repairs.actions.window) == 1
    SETTING.checker().observe(STEP, out, repairs)


@pytest.mark.parametrize(
    ("privacy", "parameters", "message"),
    [
        (Privacy(4, 2), PARAMETERS, "fewer than k = 4"),
        (Privacy(3, 3), PARAMETERS, "less than l = 3"),
        (Privacy(3, 2), replace(PARAMETERS, output="representative"), "an interval of no width"),
        (Privacy(3, 2), replace(PARAMETERS, tuples=1, delay_tuples=1), "waited for more tuples than it may"),
    ],
)
def test_a_broken_promise_is_noticed(privacy: Privacy, parameters: SuhdsaParameters, message: str) -> None:
    with pytest.raises(Violation, match=message):
        WindowChecker(POLICY, privacy, parameters).observe(STEP, *outcome())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("lower", lambda lower: lower + 1), "the least generalization"),
        (changed("upper", lambda upper: upper + 1), "the least generalization"),
        (changed("subjects", lambda subjects: subjects + 1), "subjects"),
        (changed("diversity", lambda diversity: diversity + 1), "diversity"),
        (changed("loss", lambda loss: loss / 2), "states a loss"),
        (changed("event_time", lambda event_time: event_time + 1), "the newest member"),
        (changed("release_id", lambda ids: ids + 1), "release_id"),
        (lambda out: replace(out, members=(out.members[0][::-1], out.members[1])), "a published value"),
        (lambda out: replace(out, members=tuple([*c[:3], *c[:3]] for c in out.members)), "does not wait"),
    ],
)
def test_a_release_that_is_not_what_it_says_is_noticed(change: Callable[[Releases], Releases], message: str) -> None:
    out, repairs = outcome()
    with pytest.raises(Violation, match=message):
        SETTING.checker().observe(STEP, change(out), repairs)


@pytest.mark.parametrize(
    ("part", "column", "value", "message"),
    [
        ("windows", "lsr", 0.5, "not l-diverse"),
        ("windows", "entropy_mean", 0.1, "entropies"),
        ("windows", "entropy_least", 0.1, "entropies"),
        ("windows", "swaps", 2, "swaps"),
        ("windows", "merges", 1, "merges"),
        ("windows", "unrepaired", 2, "more violating groups"),
        ("actions", "tuples_after", 9, "changes a group's size"),
        ("actions", "diversity_after", 1, "no more diverse"),
        ("actions", "inspected", 9, "more neighbors"),
        ("actions", "time_change", 0.0, "takes no time"),
    ],
)
def test_a_log_that_is_not_what_happened_is_noticed(part: str, column: str, value: float, message: str) -> None:
    out, repairs = outcome()
    log = getattr(repairs, part)
    wrong = replace(log, **{column: np.full_like(getattr(log, column), value)})
    with pytest.raises(Violation, match=message):
        SETTING.checker().observe(STEP, out, replace(repairs, **{part: wrong}))


def test_a_tuple_that_stays_too_long_or_leaves_too_early_is_noticed() -> None:
    checker = WindowChecker(POLICY, Privacy(3, 2), replace(PARAMETERS, tuples=2, delay_tuples=3))
    out, nothing = released_and_repairs(SETTING, SETTING.window(), Push(()))
    with pytest.raises(Violation, match="waits longer"):
        checker.observe(STEP, out, nothing)
    withheld = replace(
        out,
        suppressed_reason=np.array([2], np.int8),
        suppressed_position=np.array([0]),
        suppressed_event_time=np.array([STEP.rows[0].event_time]),
    )
    with pytest.raises(Violation, match="before it was due"):
        SETTING.checker().observe(STEP, withheld, nothing)


@pytest.mark.parametrize("numeric", ["mean", "median"])
def test_a_representative_that_is_a_little_off_is_noticed(numeric: Literal["mean", "median"]) -> None:
    setting = replace(SETTING, parameters=replace(PARAMETERS, output="representative", numeric=numeric))
    out, repairs = released_and_repairs(setting, setting.window(), STEP)
    setting.checker().observe(STEP, out, repairs)
    off = replace(out, lower=out.lower + 1e-6, upper=out.upper + 1e-6)
    with pytest.raises(Violation, match=f"not the {numeric}"):
        setting.checker().observe(STEP, off, repairs)
