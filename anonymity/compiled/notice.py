"""Notice of the first compilation on a machine, for programs that use the library, and its time, for jobs.

It is a module of its own because ``crenel.anonymity.compiled.jit`` belongs to the cache key of all compiled code.
"""

from __future__ import annotations

import sys
from functools import cache
from threading import Timer
from typing import Any

from numba.core import event

from crenel.anonymity.compiled.folders import cached

_PATIENCE = 1.0
"""Seconds of one compilation before the notice: small functions take less."""


@cache
def announce_compilation() -> None:
    """Let this process print one line to stderr, once, if it compiles code of Crenel for longer than a moment.

    A job never calls it: compilation runs beside its start.
    """
    event.register("numba:compile", _Notice())


@cache
def compilation_timer() -> event.TimingListener:
    """Return the timer of all compilations of this process from the first call on."""
    timer = event.TimingListener()
    event.register("numba:compile", timer)
    return timer


class _Notice(event.Listener):
    """A listener to numba's compilations, which begin only where nothing is cached."""

    def __init__(self) -> None:
        self._outermost: Any = None
        self._timer = self._new_timer()

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        if self._outermost is None and dispatcher.py_func.__module__.startswith("crenel."):
            self._outermost, self._timer = dispatcher, self._new_timer()
            self._timer.start()

    def on_end(self, event: Any) -> None:
        if event.data["dispatcher"] is self._outermost:
            self._outermost = None
            self._timer.cancel()

    @staticmethod
    def _new_timer() -> Timer:
        timer = Timer(_PATIENCE, _print_once)
        timer.daemon = True
        return timer


@cache
def _print_once() -> None:
    often = "once" if cached("compiled") is not None else "in each process, as no folder can hold the result"
    print(f"crenel: compiling the algorithm for this machine, {often}; this takes about a minute", file=sys.stderr)
