"""Settings of the golden snapshot of windows."""

from __future__ import annotations

from pathlib import Path

from crenel.anonymity.algorithms.suhdsa.parameters import AdaptiveTarget, AdaptiveWindow, SuhdsaParameters
from crenel.anonymity.model.privacy import Privacy
from tests.golden import make
from tests.support.window_drive import WindowSetting

HERE = Path(__file__).parent / "windows"
SETTING = WindowSetting(
    make.SETTING.policy,
    Privacy(3, 3),
    SuhdsaParameters(
        tuples=20,
        event_time=60_000,
        delay_tuples=20,
        delay_event_time=120_000,
        neighbors=2,
        growth_cap=2,
        target=AdaptiveTarget(3, smoothing=0.5, band=0.0, dwell=1),
        adaptive=AdaptiveWindow(8, windows=2),
    ),
    make.SETTING.types,
)
