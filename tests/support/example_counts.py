"""Numbers of examples for property tests, by the profile of hypothesis (``tests/conftest.py``).

``make test-all`` tries three times as many as the gate, and ``make laws`` a hundred times as many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.strategies import SearchStrategy

_T = TypeVar("_T")
_MOST = 2000
"""Examples that ``reach`` tries, at most."""

IS_NIGHTLY = settings.default.max_examples > 100
"""Whether this is ``make laws``, which tries far more than the gate."""


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
    """Find an example that meets a condition, the same each time, or fail."""
    search = settings(LAWS, max_examples=_MOST, phases=[Phase.generate], derandomize=True, database=None)
    return find(strategy, condition, settings=search)
