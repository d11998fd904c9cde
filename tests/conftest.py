"""Settings for all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.support.leftovers import pytest_configure

__all__ = ["pytest_configure"]

# How long an example takes says nothing here: the first one compiles, and machines are shared.
settings.register_profile("crenel", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("crenel")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Flink first: they mostly wait, and the others run beside them."""
    waiting = {item.path for item in items if item.get_closest_marker("cluster")}
    items.sort(key=lambda item: item.path not in waiting)
