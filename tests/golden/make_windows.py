"""Golden snapshots of windows, as ``tests.golden.make`` has them of CASTLE: ``python -m tests.golden.make_windows``.

From version 2 on there is a second one of each, ``vN-within``, with noised attributes and confidence.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from crenel.anonymity.algorithms.suhdsa.parameters import AdaptiveTarget, AdaptiveWindow, SuhdsaParameters
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.model.privacy import Confidence, NoiseWithin, Privacy
from crenel.state.shard import StoredShard
from crenel.state.suhdsa import VERSION
from tests.golden import make
from tests.golden.make import fingerprint_of, refuse_anew, steps_of, write
from tests.support.drive import columns_of
from tests.support.window_drive import KeptWindow, WindowSetting, take

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
WITHIN = replace(
    SETTING,
    policy=make.WITHIN.policy,
    privacy=replace(SETTING.privacy, noise_within=NoiseWithin(2.0, (0.7, 0.3), confidence=Confidence(0.95, 2))),
    types=make.WITHIN.types,
)
TAKEN = 28


def setting_of(folder: Path) -> WindowSetting:
    """Return the settings of a snapshot by its name."""
    return WITHIN if folder.name.endswith("-within") else SETTING


def snapshot(setting: WindowSetting) -> StoredShard:
    """Return the stored state after ``TAKEN`` steps."""
    shard = KeptWindow(setting, fingerprint_of(setting.policy))
    for step in steps_of(setting.policy)[:TAKEN]:
        shard.take(step)
    return shard.stored


def restored(stored: StoredShard, setting: WindowSetting = SETTING) -> SuhdsaShard:
    """Return the shard that was stored."""
    return setting.again(stored, fingerprint_of(setting.policy))


def rest(window: SuhdsaShard, setting: WindowSetting = SETTING) -> dict[str, list[Any]]:
    """Return the releases of the steps after the snapshot."""
    return columns_of([take(setting, window, step) for step in steps_of(setting.policy)[TAKEN:]])


def main(parent: Path = HERE) -> None:
    """Make the snapshots of this version."""
    for folder in (parent / f"v{VERSION}", parent / f"v{VERSION}-within"):
        refuse_anew(folder)
        setting = setting_of(folder)
        stored = snapshot(setting)
        write(folder, stored, rest(restored(stored, setting), setting))


if __name__ == "__main__":
    main()
