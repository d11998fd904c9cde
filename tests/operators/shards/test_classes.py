"""Statistics of classes, against a count one by one."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS
from crenel.operators.shards.classes import PERCENT_OF_K, Classes

FORMED = ("cluster", "merged", "split")


@st.composite
def released(draw: st.DrawFn) -> tuple[str, int, int, list[int]]:
    """Kind, subjects, tuples and diversity of one release."""
    kind = draw(st.sampled_from(KINDS))
    alone = kind in ("reused", "generalized")
    subjects = 1 if kind == "generalized" else draw(st.integers(1, 60))
    tuples = 1 if alone else draw(st.integers(1, 5))
    return kind, subjects, tuples, draw(st.lists(st.integers(1, 4), min_size=2, max_size=2))


@given(st.integers(1, 7), st.lists(st.lists(released(), max_size=5), max_size=4))
def test_everything_is_counted_once(k: int, steps: list[list[tuple[str, int, int, list[int]]]]) -> None:
    classes, counted = Classes(k), Counter[str]()
    for step in steps:
        counted.update(classes.add(columns(step)))
    everything = [release for step in steps for release in step]
    partial = [release for release in everything if release[0] != "generalized"]
    tuples = sum(release[2] for release in everything)
    diversity = sum(release[2] * min(release[3]) for release in partial)
    assert counted["released_alone"] == sum(release[2] == 1 for release in everything)
    assert classes.alone == counted["released_alone"] / max(tuples, 1)
    assert counted["diversity_sum"] == diversity
    assert classes.diversity == diversity / max(sum(release[2] for release in partial), 1)
    assert classes.least == min((release[1] for release in partial), default=0)
    sizes = [subjects for kind, subjects, *_ in everything if kind in FORMED]
    expected = Counter(max((p for p in PERCENT_OF_K if Fraction(100 * size, k) >= p), default=100) for size in sizes)
    assert {p: counted[f"classes_from_{p}"] for p in PERCENT_OF_K} == {p: expected[p] for p in PERCENT_OF_K}


def columns(step: list[tuple[str, int, int, list[int]]]) -> Releases:
    """Return the columns of releases that are looked at."""

    class Columns(SimpleNamespace):
        def __len__(self) -> int:
            return len(step)

    made: Any = Columns(
        kind=np.array([KINDS.index(kind) for kind, *_ in step], np.int8),
        subjects=np.array([subjects for _, subjects, *_ in step], np.int64),
        tuples=np.array([tuples for *_, tuples, _ in step], np.int64),
        diversity=np.array([diversity for *_, diversity in step], np.int64).reshape(-1, 2),
    )
    return cast(Releases, made)
