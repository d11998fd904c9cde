"""What a local run needs later, begun while it does something else."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from threading import Thread

from crenel.jobs.local.flags import prepare_java
from crenel.jobs.local.java import JavaError
from crenel.jobs.local.logs import begin_logs
from crenel.jobs.local.stop import kill_what_starts, starts_processes


def begin_java() -> None:
    """Start Java before it is known whether the command comes to need it, and where to write its logs.

    ``start_java`` gives the thread. Where no usable Java is there, it is ``start_java`` that says so. Where the process
    ends while Java is about to start, Java does too.
    """
    begin_logs()
    with suppress(JavaError):
        start_java()
        atexit.register(kill_what_starts)


@cache
def start_java() -> Thread:
    """Begin to start Java and to load Flink into it, while the caller imports what it needs; join before it is used.

    Asked again, it is the same thread.

    Raises
    ------
    crenel.jobs.local.java.JavaError
        As ``crenel.jobs.local.flags.prepare_java`` does.
    """
    prepare_java()
    get_gateway = import_module("pyflink.java_gateway").get_gateway

    def load() -> None:
        # Nothing here imports in Python: two threads that import Apache Beam would meet in its circles.
        flink = get_gateway().jvm.org.apache.flink
        environment = flink.streaming.api.environment.StreamExecutionEnvironment.getExecutionEnvironment()
        flink.table.api.bridge.java.StreamTableEnvironment.create(environment).sqlQuery("SELECT 1")

    thread = _begin(load)
    starts_processes(thread)
    return thread


@contextmanager
def core_loading(load: Callable[[], object]) -> Iterator[None]:
    """Load the compiled core, for which the first tuples would wait, while the block has Flink plan the job.

    Garbage is not collected meanwhile. In the thread that loads it would let go of Java's objects there, by way of the
    block's connection to Java; the block would go on by another, in another thread of Java, where Flink's planner does
    not find what it keeps by thread (a NullPointerException: metadataHandlerProvider).
    """
    collected = gc.isenabled()
    gc.disable()
    atexit.register(_end, _begin(load))
    try:
        yield
    finally:
        if collected:
            gc.enable()


def _end(thread: Thread) -> None:
    """Have a thread that compiles end before this process does."""
    import_module("crenel.anonymity.compiled.jit").stop_compiling()
    thread.join()


def _begin(work: Callable[[], object]) -> Thread:
    def attempt() -> None:
        with suppress(Exception):  # whoever needs it meets the same error, and reports it
            work()

    thread = Thread(target=attempt, name="crenel-ahead", daemon=True)
    thread.start()
    return thread
