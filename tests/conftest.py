"""Settings for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.launch import Host
from tests.support.leftovers import pytest_configure

if TYPE_CHECKING:
    from tests.support.cluster import Cluster

__all__ = ["pytest_configure"]

# How long an example takes says nothing here: the first one compiles, and machines are shared.
settings.register_profile("crenel", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("crenel")


STANDALONE = "standalone"
"""The group of tests that takes longest: it is begun first."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start Flink first, each group in one process: they mostly wait, and the others run beside them."""
    order = {}
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if item.get_closest_marker("cluster") and group is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
            group = item.get_closest_marker("xdist_group")
        name = str(group.args[0]) if group else None
        order[item] = (name is None, name != STANDALONE, name or "")
    items.sort(key=order.__getitem__)


@pytest.fixture(scope="session")
def mini() -> Iterator[Host]:
    """A process that runs one ``crenel`` after another, each on a mini-cluster of its own."""
    made = Host()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster. Who kills a part of it starts another."""
    from tests.support.cluster import running  # Flink takes a second to import

    with running(tmp_path_factory.mktemp("cluster")) as made:
        yield made
