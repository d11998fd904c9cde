"""Numbers of examples for property tests, and seeds of streams with a certain effect.

The number follows the profile of hypothesis (``tests/conftest.py``): ``make laws`` tries 33 times as many as the gate.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TypeVar

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample
from hypothesis.strategies import SearchStrategy

_T = TypeVar("_T")
_SEEDS = Path(__file__).with_name("seeds.json")
_LEARN = "CRENEL_LEARN_SEEDS"
_TRIED = 40
_SOON = 5
_MOST = 2000

IS_NIGHTLY = settings.default.max_examples > 100
"""Whether this is ``make laws``, which tries far more than the gate."""

_KNOWN: dict[str, int] = json.loads(_SEEDS.read_text(encoding="utf-8"))


def examples(many: int) -> int:
    """Return how many examples this profile tries of a law of which one with 100 examples would try ``many``."""
    return max(1, round(many * settings.default.max_examples / 100))


LAWS = settings(
    max_examples=examples(150),
    deadline=None,  # the first example may wait for the compiler
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
FEW = settings(LAWS, max_examples=examples(50))


def reach(strategy: SearchStrategy[_T], condition: Callable[[_T], bool]) -> _T:
    """Find an example that meets a condition, or fail.

    The search begins where the seed of the test, in ``seeds.json``, soon finds one; ``make laws`` begins anywhere.
    Where a strategy has changed, a test takes longer and passes all the same; ``CRENEL_LEARN_SEEDS=1`` learns the seeds
    anew.
    """
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    if os.environ.get(_LEARN):
        _KNOWN[test] = _learned(strategy, condition)
        _SEEDS.write_text(json.dumps(dict(sorted(_KNOWN.items())), indent=1) + "\n", encoding="utf-8")
    return find(strategy, condition, settings=_search(_MOST))


def _learned(strategy: SearchStrategy[_T], condition: Callable[[_T], bool]) -> int:
    """Return a seed by which an example is soon found: the first that needs few, or the best of those tried."""
    best, least = 0, _MOST
    for seed in range(_TRIED):
        looked = 0

        def counted(example: _T) -> bool:
            nonlocal looked
            looked += 1
            return condition(example)

        with suppress(NoSuchExample):
            find(strategy, counted, settings=_search(least), random=Random(seed))
            if looked < least:
                best, least = seed, looked
        if least <= _SOON:
            break
    return best


def _search(most: int) -> settings:
    return settings(LAWS, max_examples=most, phases=[Phase.generate], database=None)
