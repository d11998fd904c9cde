"""Background loading of Java, Flink and the compiled core for a local run."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from threading import Thread

from crenel.jobs.local.flags import prepare_java
from crenel.jobs.local.java import JavaError
from crenel.jobs.local.logs import begin_logs
from crenel.jobs.local.stop import kill_starting_processes, starts_processes


def begin_java() -> None:
    """Start Java before it is known whether the command needs it, with its log folder.

    ``start_java`` returns the thread, and reports a missing Java. If the process ends while Java is starting, Java ends
    too.
    """
    begin_logs()
    with suppress(JavaError):
        start_java()
        atexit.register(kill_starting_processes)


@cache
def start_java() -> Thread:
    """Start Java and load Flink in a thread, while the caller imports; join the thread before the first use.

    Repeated calls return the same thread.

    Raises
    ------
    crenel.jobs.local.java.JavaError
        As ``crenel.jobs.local.flags.prepare_java`` does.
    """
    prepare_java()
    get_gateway = import_module("pyflink.java_gateway").get_gateway

    def load() -> None:
        # This thread must not import in Python: two threads that import Apache Beam would deadlock in its import
        # cycles.
        flink = get_gateway().jvm.org.apache.flink
        environment = flink.streaming.api.environment.StreamExecutionEnvironment.getExecutionEnvironment()
        flink.table.api.bridge.java.StreamTableEnvironment.create(environment).sqlQuery("SELECT 1")

    thread = _begin(load)
    starts_processes(thread)
    return thread


def load_core(load: Callable[[], object]) -> None:
    """Load the compiled core in a thread, which the first tuples need, while the caller has Flink plan the job."""
    atexit.register(_end, _begin(load))


def _end(thread: Thread) -> None:
    """Make a compiling thread end before this process does."""
    import_module("crenel.anonymity.compiled.jit").stop_compiling()
    thread.join()


def _begin(work: Callable[[], object]) -> Thread:
    def attempt() -> None:
        with suppress(Exception):  # the later user meets the same error, and reports it
            work()

    thread = Thread(target=attempt, name="crenel-ahead", daemon=True)
    thread.start()
    return thread
