"""Preparation of a Python worker process: a watchdog for its Java process, and patches of Beam and PyFlink.

No setting of a job controls what the patches change, so each function calls them when a worker opens it. They apply to
the versions that they were tried with, which are those that Crenel supports; others work without them, more slowly.

- A Beam thread samples which step of a bundle is active, at intervals that grow to a fifth of the bundle's duration.
The end of the bundle waits until that thread wakes. Only Beam's own runners read its counts.
- Results of a function go to Java at 10 MB, after a second, or at the end of the bundle. Java reads them after the
bundle's end. It need not wait if they arrived while Python received the next block.
- PyFlink converts text columns from Arrow to Python strings, which encode does not need.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import apache_beam.version
import pandas as pd
import psutil
import pyarrow as pa
import pyflink.version
from apache_beam.runners.worker import statesampler
from pandas.arrays import ArrowExtensionArray  # type: ignore[attr-defined]
from pyflink.fn_execution import coders
from pyflink.fn_execution.utils.operation_utils import PeriodicThread

_WORKER = "pyflink.fn_execution.beam.beam_boot"
_WATCHDOG = "crenel-watchdog"
_EVERY = 1.0  # seconds between two checks of the parent
_LARGE = 1000
"""Minimum number of rows for which results are sent as a message of their own."""

_IN_ARROW = (pa.string(), pa.binary())
"""Types of the columns that stay in Arrow format, besides lists."""

_lock = threading.Lock()


def prepare_worker() -> None:
    """Start the watchdog in a separate worker process, and make bundles end as soon as their work is done.

    Every function in a worker should call this when it opens; repeated calls change nothing.
    """
    _end_with_java()
    if _is_patchable():
        # The sampling thread of a bundle then ends at once. A bundle that is sampled already still waits for its own.
        sampler: Any = statesampler.StateSampler
        sampler.run = lambda sampler: None


def flush_results(rows: int) -> None:
    """Send the next results, of ``rows`` rows, to Java as soon as they are written, with all earlier ones.

    PyFlink does this for each stream once a second, from a thread of the stream. Results of few rows wait for it.
    """
    if rows < _LARGE or not _is_patchable():
        return
    for thread in threading.enumerate():
        if isinstance(thread, PeriodicThread) and thread._function.__name__ == "notify_flush":
            thread._function()


def flush_each(results: Iterable[object], rows: int) -> Iterator[object]:
    """Yield the same results, of ``rows`` rows in total, each of which goes to Java as soon as it is written."""
    for result in results:
        flush_results(rows)
        yield result


def keep_texts_in_arrow() -> None:
    """Keep text and bytes columns of future batches in this process in Arrow format, as Series for every reader."""
    module = coders.coder_impl
    if _is_patchable() and not isinstance(module.arrow_to_pandas, _ArrowTexts):
        module.arrow_to_pandas = _ArrowTexts(module.arrow_to_pandas)


def _is_patchable() -> bool:
    """Return whether Beam and PyFlink have the versions that the patches were written for."""
    beam, flink = map(_numbers, (apache_beam.version.__version__, pyflink.version.__version__))
    return (2, 48) <= beam < (2, 62) and (1, 20) <= flink < (2, 4)


def _numbers(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


class _ArrowTexts:
    """Wrapper of PyFlink's ``arrow_to_pandas``, which still converts all other columns.

    PyFlink defines the signature of the call.
    """

    def __init__(self, convert: Callable[..., list[pd.Series[Any]]]) -> None:
        self._convert = convert

    def __call__(
        self, timezone: Any, field_types: Sequence[Any], batches: Sequence[pa.RecordBatch]
    ) -> list[pd.Series[Any]]:
        (batch,) = batches
        others = [number for number, column in enumerate(batch.columns) if not _stays(column)]
        types = [field_types[number] for number in others]
        columns, names = [batch.column(number) for number in others], list(map(str, others))
        converted = iter(self._convert(timezone, types, [pa.record_batch(columns, names)]) if others else ())
        return [
            pd.Series(ArrowExtensionArray(column), copy=False) if _stays(column) else next(converted)
            for column in batch.columns
        ]


def _stays(column: pa.Array) -> bool:
    return column.type in _IN_ARROW or bool(pa.types.is_list(column.type))


def _end_with_java() -> None:
    """End this process within seconds of its parent Java process, if it is a separate worker.

    If only the TaskManager is killed, its workers would remain for minutes: their threads wait for state that no
    process will send. In a local run Python works in threads of the command itself, which handles its own end.
    """
    if getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None) != _WORKER:
        return
    with _lock:
        if all(thread.name != _WATCHDOG for thread in threading.enumerate()):
            shell = os.getppid()
            threading.Thread(target=_watch, args=(shell, _parent(shell)), name=_WATCHDOG, daemon=True).start()


def _watch(shell: int, java: int | None) -> None:
    # The shell that runs this process, and the Java that runs the shell: a dead parent is replaced by another process.
    while os.getppid() == shell and _parent(shell) in (java, None):
        time.sleep(_EVERY)
    os._exit(1)  # no process is left to receive an error


def _parent(process: int) -> int | None:
    """Return the parent of a process; None where it is currently unknown."""
    # Importing psutil takes 9 ms, of the 1.5 s in which a worker starts.
    with suppress(psutil.Error):
        return int(psutil.Process(process).ppid())
    return None
