"""Golden snapshots of nearest release, as ``tests.golden.make`` has them of CASTLE, whose format they have.

``python -m tests.golden.make_nearest`` makes one of each policy.
"""

from __future__ import annotations

from pathlib import Path

from crenel.anonymity.algorithms.nearest.algorithm import NearestParameters
from crenel.state.castle import VERSION
from tests.golden.make import refuse_anew, rest, restored, setting_of, snapshot, write
from tests.support.nearest_drive import NearestSetting

HERE = Path(__file__).parent / "nearest"
FIRST = 3
"""The version of the format in which the first ones were made."""
KINDS = ("", "-noise", "-within", "-jitter")
"""Of policies and parameters, by the end of their names."""


def setting(folder: Path) -> NearestSetting:
    """Return the settings of a snapshot by its name."""
    of = setting_of(folder)
    jitter = 0.25 if folder.name.endswith("-jitter") else 0.0
    parameters = NearestParameters(50, 90_000, delay_jitter=jitter, loss_window=8, reuse_limit=12)
    return NearestSetting(of.policy, of.privacy, parameters, of.types, of.sampling_and_noise)


def main(parent: Path = HERE) -> None:
    """Make the snapshots of this version."""
    for kind in KINDS:
        folder = parent / f"v{VERSION}{kind}"
        refuse_anew(folder)
        of = setting(folder)
        stored = snapshot(of)
        write(folder, stored, rest(restored(stored, setting=of), of))


if __name__ == "__main__":
    main()
