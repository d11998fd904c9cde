"""Noise within releases of one tuple: by reuse, and fully generalized."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Noised, Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy
from tests.support.drive import Kept, Setting
from tests.support.source import IDENTITY, Finish, Push, Row, Step

POLICY = Policy(
    {"x": Numeric((0, 100))},
    noised={"height": Noised((100, 220), 1)},
    passthrough=(IDENTITY,),
    subject="who",
)
# Two classes, of which the second loses less and is kept; whoever comes to x = 11 when it has left is alone there.
STREAM = [
    *((50, 170), (55, 180), (60, 190)),
    *((11, 150), (11, 160), (11, 155)),
    *[(90, 200)] * 6,
    (11, 220),
    *[(90, 200)] * 6,
    (11, 157),
    *[(90, 200)] * 6,
    (11, 130),
    *[(90, 200)] * 6,
]


def scales(
    noise: NoiseWithinRelease, stream: list[tuple[int, int]], *, restored: bool, **parameters: str
) -> dict[int, float]:
    """Return the Laplace scale of the noise on the height of each reused tuple, by its number in the stream."""
    castle = Castle(Delay(3), **{"reuse_limit": 1000, **parameters})  # type: ignore[arg-type]
    setting = Setting(POLICY, Privacy(3, noise_within_release=noise), castle, (pa.int64(), pa.int64()))
    kept, found = Kept(setting), {}
    rows = [Row((float(x),), (height, i), i) for i, (x, height) in enumerate(stream)]
    steps: list[Step] = [*(Push((row,)) for row in rows), Finish()]
    for step in steps:
        out = kept.take(step)
        for i in range(len(out)):
            if KINDS[out.kind[i]] in ("reused", "generalized"):
                number = out.members[-1][out.offsets[i]]
                found[number] = float(out.noise_expected[i, 0]) * stream[number][1]
        if restored:
            kept.restore()
    return found


@pytest.mark.parametrize("restored", [False, True])
def test_a_reused_generalization_has_noise_of_the_width_of_its_class_and_of_the_tuple(restored: bool) -> None:
    # 150 to 160, and the tuple's own: each by itself, whatever was reused before. The last two are like all at x = 90.
    found = scales(NoiseWithinRelease(0.5, least=0.0), STREAM, restored=restored)
    assert found == pytest.approx({12: 70 / 0.5, 19: 10 / 0.5, 26: 30 / 0.5, 31: 0, 32: 0})


def test_nothing_is_reused_with_confidence() -> None:
    assert scales(NoiseWithinRelease(0.5, least=0.0, confidence=Confidence(0.9, 2)), STREAM, restored=False) == {}


def test_a_fully_generalized_tuple_has_noise_of_the_width_of_the_domain() -> None:
    found = scales(NoiseWithinRelease(0.5), [(10, 150), (20, 160)], restored=False, suppression="generalize")
    assert found == pytest.approx({0: 120 / 0.5, 1: 120 / 0.5})
