"""Settings for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from crenel.anonymity.compiled.folders import cached
from tests.support import durations, leftovers
from tests.support.groups import Groups, order
from tests.support.launch import Host, running

if TYPE_CHECKING:
    from tests.support.broker import Broker
    from tests.support.cluster import Cluster
    from tests.support.registry import Registry

# A job of a test is over before Java's best compiler has paid for itself: without it, a job takes a third less of the
# processor. All that tests start reads the variable. Java keeps 2 MB of machine code of each job of a process of many;
# without room for it, Java forgets all code after twenty jobs, and the next ones take half as much again.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=1g"
if _QUICK not in os.environ.get("JVM_ARGS", ""):  # a process of pytest-xdist inherits it
    os.environ["JVM_ARGS"] = f"{_QUICK} {os.environ.get('JVM_ARGS', '')}".strip()

# A shell that started the tests in the background had them ignore Ctrl-C, and what they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing here: the first one compiles, and machines are shared. Each run tries other
# examples, under `CI` too; one that fails is tried first in the next run of this user, in a fresh clone too.
_examples = cached("examples")
settings.register_profile(
    "gate",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    max_examples=30,
    derandomize=False,
    database=None if _examples is None else DirectoryBasedExampleDatabase(_examples),
)
settings.load_profile("gate")
# `make laws`. Whatever sets a number of its own sets it in proportion (tests/support/example_counts.py).
settings.register_profile("nightly", settings.get_profile("gate"), max_examples=1_000)
# `make mutants`: the examples of the gate; that one fails is enough, and making it smaller takes minutes.
settings.register_profile(
    "mutants", settings.get_profile("gate"), phases=[Phase.explicit, Phase.generate, Phase.target]
)


def pytest_configure(config: pytest.Config) -> None:
    """Let nothing outlive the run, and record durations of tests on request."""
    leftovers.pytest_configure(config)
    durations.pytest_configure(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest; every invariant that is tried on examples is a law."""
    items.sort(key=order())
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("laws")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much of the time went to tests that start Flink."""
    seconds = {True: 0.0, False: 0.0}
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            seconds["cluster" in report.keywords] += report.duration
    parts = f"{seconds[False]:.0f} s without Flink, {seconds[True]:.0f} s with Flink"
    terminalreporter.write_line(f"tests, in all processes together: {parts}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Groups:
    """Keep tests that share a cluster together."""
    return Groups(config, log)


@pytest.fixture(scope="session")
def mini() -> Iterator[Host]:
    """Yield a process that runs one ``crenel`` after another, each on a mini-cluster of its own."""
    made = Host()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a standalone cluster. A test that kills a part of it starts another."""
    from tests.support.cluster import Cluster  # Flink takes a second to import

    with running(Cluster(tmp_path_factory.mktemp("cluster"))) as made:
        yield made


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start a Kafka broker; each test creates its own topics."""
    from tests.support.broker import Broker

    with running(Broker(tmp_path_factory.mktemp("kafka"))) as made:
        yield made


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Start a schema registry; each test has subjects of its own."""
    from tests.support.registry import Registry

    with running(Registry(tmp_path_factory.mktemp("registry"))) as made:
        yield made
