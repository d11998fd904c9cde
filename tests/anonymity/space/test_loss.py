"""Losses of intervals whose range is wider, or narrower, than float64 can divide by."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from tests.support.drive import Setting, judged
from tests.support.source import IDENTITY, Finish, Push, Row
from tests.support.window_drive import WindowSetting

RANGES = [(-1e308, 1e308), (0.0, 1.7976931348623157e308), (0.0, 5e-324), (-5e-324, 1e-310), (3.0, 8.0)]
POLICY = Policy({"x": Numeric(), "y": Numeric((0, 10))}, passthrough=(IDENTITY,))


@pytest.mark.parametrize("algorithm", ["castle", "window"])
@pytest.mark.parametrize(("lowest", "highest"), RANGES)
def test_the_loss_of_a_whole_observed_range_is_one(lowest: float, highest: float, algorithm: str) -> None:
    middle = 0.5 * lowest + 0.5 * highest
    rows = tuple(Row((x, y), (i,)) for i, (x, y) in enumerate(((lowest, 0), (middle, 5), (highest, 10))))
    common = (POLICY, Privacy(3))
    if algorithm == "castle":
        setting = Setting(*common, Castle(Delay(1000)), (pa.int64(),))
        outputs, *_ = judged(setting, [Push(rows), Finish()])
    else:
        windows = WindowSetting(*common, Suhdsa(tuples=1000), (pa.int64(),))
        outputs, *_ = judged(windows, [Push(rows), Finish()])
    assert [loss for out in outputs for loss in out.loss.tolist()] == [1.0]
