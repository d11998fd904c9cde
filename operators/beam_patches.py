"""Two waits that Beam and PyFlink put into each bundle, taken out where a function of ours works.

Neither can be set from a job, so both are changed in the process that works, when a function opens.

- A thread of Beam looks, at intervals that grow to a fifth of what a bundle has taken, which step of it is at work, and
  the end of the bundle waits until that thread wakes. Only runners of Beam's own read what it counts.
- What a function returns goes to Java once it is 10 MB, or a second old, or at the end of the bundle. Java looks at it
  when the bundle has ended, and need not wait for it then if it has crossed while Python had the next block.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.runners.worker import statesampler
from pyflink.fn_execution.utils.operation_utils import PeriodicThread

_LARGE = 1000
"""Rows of which what comes is worth a message of its own."""


def end_at_once() -> None:
    """Have bundles that begin from now on in this process end when their work has.

    The thread that would watch a bundle ends as soon as it has begun; of one that is watched already it is waited for.
    """
    watch: Any = statesampler.StateSampler
    watch.run = lambda sampler: None


def leave_at_once(rows: int) -> None:
    """Have what is written next, of so many rows, go to Java as soon as it is written, with what was written before.

    PyFlink asks each of its streams to, once a second, from a thread of the stream's own. Few rows stay until then.
    """
    if rows < _LARGE:
        return
    for thread in threading.enumerate():
        if isinstance(thread, PeriodicThread) and thread._function.__name__ == "notify_flush":
            thread._function()


def leaving(results: Iterable[object], rows: int) -> Iterator[object]:
    """The same results, of so many rows, each of which leaves for Java as soon as it is written."""
    for result in results:
        leave_at_once(rows)
        yield result
