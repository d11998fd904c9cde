"""Settings of the golden snapshot of SUHDSA."""

from __future__ import annotations

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.parameters import Adaptive, Target
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from tests.golden import make
from tests.support.window_drive import WindowSetting

SETTING = WindowSetting(
    make.SETTING.policy,
    Privacy(3, 3),
    Suhdsa(
        tuples=20,
        event_time=60_000,
        neighbors=2,
        growth_cap=2,
        target=Target(3, smoothing=0.5, band=0.0, dwell=1),
        adaptive=Adaptive(8, windows=2),
        delay=Delay(20, 120_000),
    ),
    make.SETTING.types,
)
