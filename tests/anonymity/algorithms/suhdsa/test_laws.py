"""Invariants on any stream and under any policy of SUHDSA, judged by the checker."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from tests.support.drive import columns_of, hashes, in_blocks, judged
from tests.support.example_counts import FEW, LAWS
from tests.support.source import IDENTITY, Row
from tests.support.strategies import Case, cuts
from tests.support.window_drive import WindowSetting, taken_by, window_cases


@given(window_cases(timed=True, event_time=7, delay=Delay(event_time=20)), cuts)
@LAWS
def test_event_time_bounds_windows_and_delays_however_late_tuples_come(case: Case, cut: tuple[int, ...]) -> None:
    judged(case.setting, case.steps(cut))


@given(
    st.integers(2, 6),
    st.lists(st.integers(1000, 2**40), min_size=6, max_size=60, unique=True),
    st.sampled_from(("generalization", "representative")),
)
@FEW
def test_nothing_raw_leaves_but_means_and_the_ends_of_intervals(k: int, drawn: list[int], output: str) -> None:
    # Values like no count and no number of anything: what turns up in a release or a log is raw.
    policy = Policy({"age": Numeric(), "pay": Numeric((0, 2**41))}, passthrough=(IDENTITY,), subject="who")
    parameters = Suhdsa(tuples=10, output=output)  # type: ignore[arg-type]
    setting = WindowSetting(policy, Privacy(k), parameters, (pa.int64(),))
    rows = [Row((x + 0.25, x + 0.75), (-1 - i,), subject=x + 2**50) for i, x in enumerate(drawn)]
    raw = {value for row in rows for value in (*row.values, row.subject)}
    raw.update(hashes(row.subject for row in rows).tolist())
    window, outputs = setting.shard(), []
    for step in in_blocks(rows, 7):
        found = taken_by(setting, window, step)
        outputs.append(found.releases)
        for log in (found.repairs.actions, found.repairs.windows):
            for values in vars(log).values():
                assert raw.isdisjoint(values.tolist())
    columns = columns_of(outputs)
    # A mean may happen to be someone's value; an interval of one value would be one person's.
    for low, high in zip(columns.pop("lower"), columns.pop("upper"), strict=True):
        assert output == "representative" or all(a < b for a, b in zip(low, high, strict=True))
    for values in columns.values():
        assert raw.isdisjoint(np.ravel(values).tolist())
