"""Two waits that Beam and PyFlink put into each bundle, taken out where a function of ours works.

Neither can be set from a job, so both are changed in the process that works, when a function opens.

- A thread of Beam looks, at intervals that grow to a fifth of what a bundle has taken, which step of it is at work, and
  the end of the bundle waits until that thread wakes. Only runners of Beam's own read what it counts.
- What a function returns goes to Java once it is 10 MB, or a second old, or at the end of the bundle: until then Java
  has nothing to write, and while it writes, Python has nothing to do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.runners.worker import statesampler
from pyflink.fn_execution.utils.operation_utils import PeriodicThread

_BEAM: Any = statesampler

WATCHED = (_BEAM.StateSampler.start, _BEAM.StateSampler.stop)
"""How Beam begins and ends a bundle."""

LARGE = 1000
"""Rows of which what comes is worth a message of its own."""


def end_at_once() -> None:
    """Have bundles of this process end when their work has, in place of when a thread that watches them wakes."""
    _BEAM.StateSampler.start = _start
    _BEAM.StateSampler.stop = _stop


def _start(sampler: Any) -> None:
    sampler.tracked_thread = threading.current_thread()
    _BEAM.set_current_tracker(sampler)
    sampler.started = sampler.unwatched = True


def _stop(sampler: Any) -> None:
    if not sampler.__dict__.pop("unwatched", False):  # begun before: its thread must be waited for, or it never ends
        WATCHED[1](sampler)
        return
    _BEAM.set_current_tracker(None)
    sampler.finished = True


def leave_at_once() -> None:
    """Have what is written next go to Java as soon as it is written, with all that was written before it.

    PyFlink asks each of its streams to, once a second, from a thread of the stream's own.
    """
    for thread in threading.enumerate():
        if isinstance(thread, PeriodicThread) and thread._function.__name__ == "notify_flush":
            thread._function()


def leaving(results: Iterable[object]) -> Iterator[object]:
    """The same results, each of which leaves for Java as soon as it is written."""
    for result in results:
        leave_at_once()
        yield result
