"""The check before a release: nothing that breaks the promise gets past it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.privacy_models.checks import Checks, checks_of, enforce
from crenel.anonymity.privacy_models.tally import Tally
from tests.anonymity.privacy_models.test_distinct_diversity import counted
from tests.support.drive import Setting
from tests.support.source import IDENTITY, Row


@entry
def _checked(checks: Checks, k: int, tally: Tally, diversities: np.ndarray) -> None:  # type: ignore[type-arg]
    enforce(checks, k, tally, diversities)


def checked(*columns: str) -> list[int]:
    """Return the statement about a release of five people, each with one value of each column; k = 5, l = 2."""
    policy = Policy({"x": Numeric()}, sensitive=tuple(f"s{i}" for i in range(len(columns))))
    tally = counted([(person, *values) for person, values in enumerate(zip(*columns, strict=True))])
    diversities = np.zeros(len(columns), np.int64)
    _checked(checks_of(policy, Privacy(5, 2)), 5, tally, diversities)
    return diversities.tolist()


@pytest.mark.parametrize(("one", "other", "found"), [("aabbb", "ababa", [2, 2]), ("abcba", "abcde", [3, 5])])
def test_what_keeps_the_promise_passes(one: str, other: str, found: list[int]) -> None:
    assert checked(one, other) == found


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ("abab", "abab", "has fewer than k distinct subjects"),
        ("aaaaa", "ababa", "is not l-diverse"),
        ("ababa", "ccccc", "is not l-diverse"),
    ],
)
def test_what_breaks_the_promise_is_an_error(one: str, other: str, what: str) -> None:
    with pytest.raises(InvariantError, match=f"a release {what}.*; nothing of it was emitted"):
        checked(one, other)


def test_a_shard_that_miscounts_releases_nothing() -> None:
    # The release counts its members anew, so it does not matter why a cluster passed for large enough.
    policy = Policy({"x": Numeric((0, 9))}, passthrough=(IDENTITY,), subject="who")
    setting = Setting(policy, Privacy(2), Castle(Delay(1)), (pa.int64(),))
    castle = setting.shard()
    castle.push(setting.block([Row((1.0,), (0,), subject=0)]))
    castle.arrays.clusters.subjects[:] = 2
    with pytest.raises(InvariantError, match="fewer than k distinct subjects"):
        castle.push(setting.block([Row((9.0,), (1,), subject=1)]))
