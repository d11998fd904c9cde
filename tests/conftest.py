"""Settings for all tests: tiers, examples, limits of time, and the processes that tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from crenel.anonymity.compiled.folders import cached
from tests.support import durations, leftovers
from tests.support.durations import Stopwatch
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

# How long an example takes says nothing here, because machines are shared. The gate tries the same examples each time.
settings.register_profile(
    "gate",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    max_examples=10,
    derandomize=True,
    database=None,
)
settings.load_profile("gate")
# Each run of the other profiles tries other examples. One that fails is tried first in the next run of this user.
_examples = cached("examples")
settings.register_profile(
    "full",
    settings.get_profile("gate"),
    max_examples=30,
    derandomize=False,
    database=None if _examples is None else DirectoryBasedExampleDatabase(_examples),
)
# `make laws`. Whatever sets a number of its own sets it in proportion (tests/support/example_counts.py).
settings.register_profile("nightly", settings.get_profile("full"), max_examples=1_000)
# `make mutants`: that one example fails is enough, and making it smaller takes minutes.
settings.register_profile(
    "mutants",
    settings.get_profile("gate"),
    max_examples=30,
    phases=[Phase.explicit, Phase.generate, Phase.target],
)

_ROOT = Path(__file__).parent
_TIERS = {"full": _ROOT / "full", "night": _ROOT / "night"}
"""Folders of tests that only ``make test-all``, or only a command of their own, runs; all others are the gate."""

_LIMIT = 5.0
"""Processor time, in seconds, that a test of the gate may take, without the time of the compiler."""

_LIMIT_FLINK = 40.0
"""The same for a test of the gate that starts Flink, including its part of the shared process."""

_LOADED = 2.0
"""Times as long as on an idle machine that a test may take where other work loads the machine."""

_SHARED = {"mini": "flink", "cluster": "cluster", "broker": "cluster", "registry": "cluster"}
"""Fixtures that start processes which many tests share, and the marker of these tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Let nothing outlive the run, and record durations of tests on request."""
    leftovers.pytest_configure(config)
    durations.pytest_configure(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector from reading modules and tests again and again, which took a fifth of their time."""
    gc.disable()
    result = yield
    gc.enable()
    gc.freeze()
    return result


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folder of another tier, unless an argument of the command names it or lies in it."""
    if collection_path not in _TIERS.values():
        return None
    named = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(collection_path) for path in named) else True


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark invariants that are tried on examples, and tests that share a process with others."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("laws")
        markers = {_SHARED[name] for name in getattr(item, "fixturenames", ()) if name in _SHARED}
        markers |= {mark.name for mark in item.iter_markers() if mark.name in ("flink", "cluster")}
        for mark in markers:
            item.add_marker(mark)
        if markers:
            item.add_marker("flink")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Begin to count a test's processor time."""
    item.stash[_watch] = Stopwatch(others="flink" in item.keywords)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test of the gate that took longer than its tier allows."""
    result = yield
    in_gate = not any(item.path.is_relative_to(folder) for folder in _TIERS.values())
    is_measured = "COVERAGE_RUN" in os.environ  # by a tracer, which takes as long again
    if in_gate and not is_measured and settings.get_current_profile_name() == "gate":
        seconds, limit = item.stash[_watch].seconds(), _LIMIT_FLINK if "flink" in item.keywords else _LIMIT
        if seconds > _LOADED * limit:
            pytest.fail(f"took {seconds:.1f} s of the processor, more than the {limit:.0f} s of the gate: tests/full")
    return result


_watch = pytest.StashKey[Stopwatch]()


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
