"""Golden snapshots of windows, as ``tests.golden.make`` has them of CASTLE: ``python -m tests.golden.make_windows``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anonymity.policy import Privacy
from anonymity.window.parameters import AdaptiveTarget, AdaptiveWindow, WindowParameters
from anonymity.window.shard import Window
from anonymity.window.stored import WindowMemory
from state.shard import Stored
from state.window import VERSION
from tests.golden import make
from tests.golden.make import FINGERPRINT, STEPS, refuse_anew, write
from tests.support.drive import columns_of, with_changes
from tests.support.window_drive import WindowSetting, take

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
    window = SETTING.window()
    memory, stored = WindowMemory(window, FINGERPRINT), Stored(b"", {}, {}, {})
    for step in STEPS[:TAKEN]:
        take(SETTING, window, step)
        stored = with_changes(stored, memory.changes())
    return stored


def restored(stored: Stored) -> tuple[Window, WindowMemory]:
    """The shard that was stored."""
    return WindowMemory.restore(
        SETTING.policy,
        SETTING.privacy,
        SETTING.parameters,
        members=SETTING.members,
        fingerprint=FINGERPRINT,
        stored=stored,
    )


def rest(window: Window) -> dict[str, list[Any]]:
    """What the steps after the snapshot release."""
    return columns_of([take(SETTING, window, step) for step in STEPS[TAKEN:]])


def main(parent: Path = HERE) -> None:
    """Make the snapshot of this version."""
    folder = parent / f"v{VERSION}"
    refuse_anew(folder)
    stored = snapshot()
    write(folder, stored, rest(restored(stored)[0]))


if __name__ == "__main__":
    main()
