"""What the tests of whole jobs share: starting Flink takes longer than most jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster, running
from tests.support.launch import Host


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster. Who kills a part of it starts another."""
    with running(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="session")
def mini() -> Iterator[Host]:
    """A process that runs one command after another."""
    made = Host()
    yield made
    made.stop()
