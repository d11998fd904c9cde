"""Patches that remove two fixed delays per Beam bundle.

No job setting controls these delays, so opening a function patches them in the worker process.

- A Beam thread samples which step of a bundle is active, at intervals that grow to a fifth of the bundle's duration.
The end of the bundle waits until that thread wakes. Only Beam's own runners read its counts.
- Results of a function go to Java at 10 MB, after a second, or at the end of the bundle. Java reads them after the
bundle's end. It need not wait if they arrived while Python received the next block.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.runners.worker import statesampler
from pyflink.fn_execution.utils.operation_utils import PeriodicThread

_LARGE = 1000
"""Minimum number of rows for which results are sent as a message of their own."""


def end_at_once() -> None:
    """Make future bundles in this process end as soon as their work is done.

    The sampling thread of a bundle then ends immediately. A bundle that is already sampled still waits for its thread.
    """
    watch: Any = statesampler.StateSampler
    watch.run = lambda sampler: None


def leave_at_once(rows: int) -> None:
    """Send the next results, of ``rows`` rows, to Java as soon as they are written, with all earlier ones.

    PyFlink does this for each stream once a second, from a thread of the stream. Results of few rows wait for it.
    """
    if rows < _LARGE:
        return
    for thread in threading.enumerate():
        if isinstance(thread, PeriodicThread) and thread._function.__name__ == "notify_flush":
            thread._function()


def leaving(results: Iterable[object], rows: int) -> Iterator[object]:
    """Yield the same results, of ``rows`` rows in total, each of which goes to Java as soon as it is written."""
    for result in results:
        leave_at_once(rows)
        yield result
