"""Golden snapshots of windows, as ``tests.golden.make`` has them of CASTLE: ``python -m tests.golden.make_windows``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anonymity.policy import Privacy
from anonymity.window.parameters import AdaptiveTarget, AdaptiveWindow, WindowParameters
from anonymity.window.shard import Window
from state.stored import Stored
from state.window import VERSION
from tests.golden import make
from tests.golden.make import FINGERPRINT, STEPS, refuse_anew, write
from tests.support.drive import columns_of
from tests.support.window_drive import KeptWindow, WindowSetting, take

HERE = Path(__file__).parent / "windows"
SETTING = WindowSetting(
    make.SETTING.policy,
    Privacy(3, 3),
    WindowParameters(
        tuples=20,
        event_time=60_000,
        delay_tuples=20,
        delay_event_time=120_000,
        neighbours=2,
        growth_cap=2,
        target=AdaptiveTarget(3, smoothing=0.5, band=0.0, dwell=1),
        adaptive=AdaptiveWindow(8, windows=2),
    ),
    make.SETTING.types,
)
TAKEN = 28


def snapshot() -> Stored:
    """What is stored after ``TAKEN`` steps."""
    shard = KeptWindow(SETTING, FINGERPRINT)
    for step in STEPS[:TAKEN]:
        shard.take(step)
    return shard.stored


def restored(stored: Stored) -> Window:
    """The shard that was stored."""
    return SETTING.again(stored, FINGERPRINT)


def rest(window: Window) -> dict[str, list[Any]]:
    """What the steps after the snapshot release."""
    return columns_of([take(SETTING, window, step) for step in STEPS[TAKEN:]])


def main(parent: Path = HERE) -> None:
    """Make the snapshot of this version."""
    folder = parent / f"v{VERSION}"
    refuse_anew(folder)
    stored = snapshot()
    write(folder, stored, rest(restored(stored)))


if __name__ == "__main__":
    main()
