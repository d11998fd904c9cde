"""A command that is told to stop, by Ctrl-C, SIGTERM or the end of its terminal, at whatever moment that comes.

An exception that a signal raises is not enough: it may be raised where Python drops it, as while garbage is collected,
or where it breaks off another's tidying up. So the signal holds the main thread where it stands, for good; a thread
apart does what is left to do, and ends the process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from types import FrameType
from typing import NoReturn
from uuid import uuid4

from crenel.jobs.local import folders
from crenel.jobs.local.descendants import descendants

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TWICE = 0.3  # seconds within which one signal may come twice: to the process, and to its group
_TO_END = 3.0  # seconds for processes that are killed to be gone
_HELD = 60.0  # seconds after which the main thread ends the process itself
_SET_CHILD_SUBREAPER = 36  # of prctl(2)
_CLEAN = b"\r\x1b[2K\x1b[?25h"  # takes a progress bar away, and shows the cursor


class _Told:
    """What is to be done and said where this process is told to stop."""

    def __init__(self) -> None:
        self.watched = False
        self.held = False  # whether the main thread stands still
        self.word = "stopped"
        self.steps: list[Callable[[], object]] = []
        self.folders: list[Path] = []
        self.starting: list[Thread] = []
        self.ending = Lock()
        self.error = 2


_told = _Told()


def watch() -> None:
    """From here on a signal ends this process as this module says; one that it was started to ignore is ignored.

    The exit code is 128 and the signal's number: 130 after Ctrl-C, 143 after SIGTERM, 129 where the terminal ends. A
    second signal skips what takes time. To be called in the main thread.
    """
    chosen = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    Thread(target=_listen, args=(reading, chosen), name="crenel-stop", daemon=True).start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # tells at once, whatever the main thread does
    for number in chosen:
        signal.signal(number, _hold)
    _told.watched = True
    _adopt()

    def give_back() -> None:
        # In a process that is forked, and in the last moments of this one, nobody listens any more.
        signal.set_wakeup_fd(-1)
        for number in chosen:
            signal.signal(number, signal.SIG_DFL)

    os.register_at_fork(after_in_child=give_back)
    atexit.register(give_back)


def _adopt() -> None:
    """Become the parent of processes whose own ends before them, so that they are found among the descendants.

    Flink ends the shell that runs a Python worker, and not the worker. Only Linux can do this.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def watched() -> bool:
    """Whether ``watch`` was called in this process."""
    return _told.watched


def say_if_stopped(word: str) -> None:
    """What to say from here on where the process is told to stop."""
    _told.word = word


@contextmanager
def before_stopping(step: Callable[[], object]) -> Iterator[None]:
    """Have ``step`` done first where the process is told to stop within the block, in a thread of its own."""
    _told.steps.append(step)
    try:
        yield
    finally:
        _told.steps.remove(step)


@contextmanager
def temporary_folder(
    prefix: str, kept_on: tuple[type[Exception], ...] = (), made: Path | None = None
) -> Iterator[Path]:
    """A new folder, for this user alone, that is gone after the block, or where the process is told to stop within it.

    It stays where the block raises one of ``kept_on``, until ``crenel.jobs.local.folders`` removes it. With ``made`` it
    is that one, of ``make_folder``.
    """
    path = made or make_folder(prefix)
    keep = False
    try:
        yield path
    except kept_on:
        keep = True
        raise
    finally:
        (folders.keep if keep else folders.remove)(path)
        _told.folders.remove(path)


def folder_until_exit(prefix: str) -> Path:
    """A new folder that is gone when this process has ended."""
    path = make_folder(prefix)
    atexit.register(folders.remove, path)
    return path


def make_folder(prefix: str) -> Path:
    """A new folder, for this user alone, that is gone where the process is told to stop; the caller takes it away.

    It is owned by this process (``crenel.jobs.local.folders``). The first one has what ended processes have left
    removed.
    """
    _begin_cleaning()
    path = Path(tempfile.gettempdir()) / f"{prefix}{uuid4().hex}"
    _told.folders.append(path)  # first, as the process may be told to stop between the two
    folders.make(path)
    return path


@cache
def _begin_cleaning() -> None:
    """Remove what no living process owns, beside what this one does: gigabytes of checkpoints may take seconds."""
    Thread(target=folders.clean, name="crenel-clean", daemon=True).start()


def starts_processes(thread: Thread) -> None:
    """Wait for the end of a thread that may start another process at any moment, before the last of them is killed."""
    _told.starting.append(thread)


def kill_what_starts() -> None:
    """Where a thread may start another process even now, kill all processes of this one, until it does not.

    To be called by the main thread, which starts none from here on, and has said all that it has to say.
    """
    if any(thread.is_alive() for thread in _told.starting):
        _told.held = True
        _fall_silent()
        _kill()


@contextmanager
def left_to_us() -> Iterator[None]:
    """Processes that this thread starts within the block do not hear what a terminal tells all of them.

    Python would print a traceback in each. They are killed where this process is told to stop.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hold(number: int, frame: FrameType | None) -> NoReturn:
    _told.held = True
    time.sleep(_HELD)
    os._exit(128 + number)


def _listen(reading: int, chosen: list[signal.Signals]) -> None:
    first: float | None = None
    while True:
        number = os.read(reading, 1)[0]
        if number not in chosen:
            continue
        if first is None:
            first = time.monotonic()
            _fall_silent()
            Thread(target=_stop, args=(number,), name="crenel-stopping", daemon=True).start()
        elif time.monotonic() - first > _TWICE:
            _end(number)


def _fall_silent() -> None:
    """From here on nobody writes to stderr but the last word: not a progress bar, nor who is cut off from Java."""
    with suppress(OSError):
        _told.error = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if os.isatty(_told.error):
            os.write(_told.error, _CLEAN)


def _stop(number: int) -> None:
    for step in reversed(_told.steps):
        with suppress(Exception):
            step()
    _end(number)


def _end(number: int) -> None:
    if not _told.ending.acquire(blocking=False):
        return  # another thread is about to
    try:
        _kill()
        for folder in _told.folders:
            folders.remove(folder)
        os.write(_told.error, f"crenel: {_told.word}\n".encode())
    finally:
        os._exit(128 + number)


def _kill() -> None:
    """Kill all that this process has started, and what these have."""
    until = time.monotonic() + _TO_END
    while time.monotonic() < until:
        found: list[int] = []
        # Whoever is stopped starts nothing more.
        while more := [process for process in descendants() if process not in found]:
            found += more
            _send(more, signal.SIGSTOP)
        _send(found, signal.SIGKILL)
        if not found and _told.held and not any(thread.is_alive() for thread in _told.starting):
            return
        time.sleep(0.02)


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(OSError):  # it has ended
            os.kill(process, number)
