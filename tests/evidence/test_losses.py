"""Share of each attribute in a loss, compared with the stated loss."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.evidence.losses import losses
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.replay import replay_outputs
from tests.evidence.test_replay import sample_of, setting_of
from tests.support.example_counts import FEW
from tests.support.strategies import Case, cases


@FEW
@given(case=cases())
def test_losses_of_attributes_make_the_loss_of_releases(case: Case) -> None:
    replayed = replay_outputs(sample_of(case.setting, case), setting_of(case))
    found, stated = losses(replayed.outputs), replayed.totals.mean_loss
    assert bool(found) == (stated is not None)
    known = [loss for loss in found.values() if loss is not None]
    assert all(0 <= loss <= 1 + 1e-6 for loss in known)
    if stated is not None:
        assert len(known) == len(case.setting.policy.attributes)
        assert sum(known) / len(known) == pytest.approx(stated, abs=1e-6)


def test_a_release_counts_as_often_as_it_has_tuples() -> None:
    policy = Policy({"x": Numeric((0.0, 10.0)), "y": Numeric()})
    ends = {"x_min": [0.0, 0.0], "x_max": [10.0, 0.0], "y_min": [3.0, 3.0], "y_max": [4.0, 4.0]}
    audit = pa.table({"tuples": [3, 1], "loss": [0.5, 0.2], **ends})
    assert losses(RunOutputs(policy, pa.table({}), audit)) == pytest.approx({"x": 0.75, "y": 0.1})


def test_a_value_that_stands_for_a_release_tells_no_loss() -> None:
    policy = Policy({"x": Numeric((0.0, 10.0))})
    assert losses(RunOutputs(policy, pa.table({"x": [1.0]})), representative=True) == {"x": None}
