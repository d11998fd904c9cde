"""The check before a release: nothing that breaks the promise gets past it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from anonymity.compiled.jit import entry
from anonymity.policy import CastleParameters, Numeric, Policy, Privacy
from anonymity.promise.guarantee import guarantee
from tests.support.drive import Setting
from tests.support.source import IDENTITY, Row


@entry
def checked(k: int, l: int, subjects: int, diversity: NDArray[np.int64]) -> None:  # noqa: E741
    guarantee(k, l, subjects, diversity)


@pytest.mark.parametrize(("subjects", "diversity"), [(5, [2, 2]), (5, [3, 9]), (6, [2, 2])])
def test_what_keeps_the_promise_passes(subjects: int, diversity: list[int]) -> None:
    checked(5, 2, subjects, np.array(diversity))


@pytest.mark.parametrize(
    ("subjects", "diversity", "what"),
    [(4, [2, 2], "k distinct subjects"), (5, [1, 2], "l distinct sensitive"), (5, [2, 1], "l distinct sensitive")],
)
def test_what_breaks_the_promise_is_an_error(subjects: int, diversity: list[int], what: str) -> None:
    with pytest.raises(RuntimeError, match=f"fewer than {what}.*; nothing of it was emitted"):
        checked(5, 2, subjects, np.array(diversity))


def test_a_shard_that_miscounts_releases_nothing() -> None:
    # The release counts its members anew, so it does not matter why a cluster passed for large enough.
    policy = Policy((Numeric("x", (0, 9)),), passthrough=(IDENTITY,), subject="who")
    setting = Setting(policy, Privacy(2), CastleParameters(1), (pa.int64(),))
    castle = setting.castle()
    castle.push(setting.block([Row((1.0,), (0,), subject=0)]))
    castle.live.clusters.subjects[:] = 2
    with pytest.raises(RuntimeError, match="fewer than k distinct subjects"):
        castle.push(setting.block([Row((9.0,), (1,), subject=1)]))
