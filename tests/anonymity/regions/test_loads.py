"""Recent loads of regions."""

from __future__ import annotations

import numpy as np
import pytest

from crenel.anonymity.regions.loads import Loads


def test_few_tuples_say_nothing() -> None:
    loads = Loads(np.array([0.5, 0.5]))
    assert (loads.fullest, loads.share(0)) == (0, 0)
    loads.add(np.array([99, 0]))
    assert (loads.fullest, loads.share(0)) == (0, 0)
    loads.add(np.array([0, 1]))
    assert (loads.fullest, loads.share(0), loads.share(1)) == (1.98, 0.99, 0.01)


def test_the_fullest_is_measured_by_what_is_expected_of_it() -> None:
    loads = Loads(np.array([0.6, 0.1, 0.3]))
    loads.add(np.array([600, 300, 100]))
    assert loads.fullest == pytest.approx(3)


def test_what_came_long_ago_is_forgotten() -> None:
    loads = Loads(np.array([0.5, 0.5]))
    for _ in range(1000):
        loads.add(np.array([100, 100]))
    assert loads.fullest == pytest.approx(1)
    for _ in range(100):
        loads.add(np.array([100, 0]))
    assert loads.fullest > 1.9


def test_a_region_of_which_nothing_is_expected_is_no_error() -> None:
    loads = Loads(np.array([1.0, 0.0]))
    loads.add(np.array([900, 100]))
    assert loads.fullest > 1000
