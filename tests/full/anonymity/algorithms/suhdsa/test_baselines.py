"""Baselines of SUHDSA."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaParameters
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.algorithms.suhdsa.stored import initial_snapshot
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from experiments.suhdsa.baselines import Suhdsa, Ubdsa
from tests.anonymity.algorithms.suhdsa.test_parts import POLICY, TYPES, members, rows
from tests.support.drive import KEY, in_blocks
from tests.support.window_drive import WindowSetting, take

# Baselines.


@pytest.mark.parametrize("kind", [Suhdsa, Ubdsa])
def test_baselines_promise_k_alone(kind: type[SuhdsaShard]) -> None:
    made = WindowSetting(replace(POLICY, event_time=None), Privacy(3, 2), SuhdsaParameters(9), TYPES)
    window = kind(made.terms(), initial_snapshot(made.terms(), 0, KEY))
    given = [replace(row, event_time=NO_TIME) for row in rows([i % 10 for i in range(60)], "a" * 60)]
    outputs = [take(made, window, step) for step in in_blocks(given, 7)]
    left = [i for out in outputs for group in members(out) for i in group]
    left += [i for out in outputs for i in out.suppressed_position.tolist()]
    assert sorted(left) == list(range(60))
    assert window.counters.suppressed["too_few_subjects"] < 3
    assert min(subjects for out in outputs for subjects in out.subjects.tolist()) >= 3
    assert {found for out in outputs for (found,) in out.diversity.tolist()} == {1}
    assert window.counters.swaps == window.counters.merges == 0
