"""Clean stop of a command by Ctrl-C, SIGTERM or the end of its terminal, at any moment.

An exception that a signal handler raises is not enough. Python drops it during garbage collection, and it may interrupt
the cleanup of another exception. So the signal handler blocks the main thread until the process ends. A separate thread
cleans up and ends the process.
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

import psutil

from crenel.jobs.local import folders

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TWICE = 0.3  # seconds within which one signal may come twice: to the process, and to its group
_TO_END = 3.0  # seconds for killed processes to end
_BLOCKED = 60.0  # seconds after which the main thread ends the process itself
_SET_CHILD_SUBREAPER = 36  # of prctl(2)
_CLEAN = b"\r\x1b[2K\x1b[?25h"  # removes a progress bar, and shows the cursor


class _StopState:
    """The steps and the message for a stop of this process."""

    def __init__(self) -> None:
        self.watched = False
        self.is_blocked = False  # whether the main thread is blocked
        self.message = "stopped"
        self.steps: list[Callable[[], object]] = []
        self.folders: list[Path] = []
        self.starting: list[Thread] = []
        self.ending = Lock()
        self.error = 2


_state = _StopState()


def watch() -> None:
    """Make signals end this process as this module describes; signals that were ignored at the start stay ignored.

    The exit code is 128 plus the signal's number: 130 after Ctrl-C, 143 after SIGTERM, 129 at the end of the terminal.
    A second signal skips slow steps. Call it in the main thread.
    """
    chosen = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    Thread(target=_listen, args=(reading, chosen), name="crenel-stop", daemon=True).start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # notifies at once, even while the main thread is busy
    for number in chosen:
        signal.signal(number, _block)
    _state.watched = True
    _adopt()

    def give_back() -> None:
        # In a forked process, and in the last moments of this one, no thread listens any more.
        signal.set_wakeup_fd(-1)
        for number in chosen:
            signal.signal(number, signal.SIG_DFL)

    os.register_at_fork(after_in_child=give_back)
    atexit.register(give_back)


def _adopt() -> None:
    """Become the parent of orphaned descendants, so that they stay among the descendants.

    Flink ends the shell that runs a Python worker, and not the worker. Only Linux supports this.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def watched() -> bool:
    """Return whether ``watch`` was called in this process."""
    return _state.watched


def set_stop_message(message: str) -> None:
    """Set the message for a stop of the process from now on."""
    _state.message = message


@contextmanager
def before_stopping(step: Callable[[], object]) -> Iterator[None]:
    """Run ``step`` first if the process is stopped within the block, in a thread of its own."""
    _state.steps.append(step)
    try:
        yield
    finally:
        _state.steps.remove(step)


@contextmanager
def temporary_folder(
    prefix: str, kept_on: tuple[type[Exception], ...] = (), made: Path | None = None
) -> Iterator[Path]:
    """Yield a new private folder, which is removed after the block, or if the process is stopped within it.

    After one of the exceptions ``kept_on`` the folder stays until ``crenel.jobs.local.folders`` removes it. ``made``: a
    folder of ``make_folder`` to use instead.
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
        _state.folders.remove(path)


def folder_until_exit(prefix: str) -> Path:
    """Return a new folder that is removed when this process ends."""
    path = make_folder(prefix)
    atexit.register(folders.remove, path)
    return path


def make_folder(prefix: str) -> Path:
    """Return a new private folder that is removed if the process is stopped; the caller removes it otherwise.

    This process owns it (``crenel.jobs.local.folders``). The first call also removes folders of ended processes.
    """
    _begin_cleaning()
    path = Path(tempfile.gettempdir()) / f"{prefix}{uuid4().hex}"
    _state.folders.append(path)  # first, because the process may be stopped between the two
    folders.make(path)
    return path


@cache
def _begin_cleaning() -> None:
    """Remove folders without a living owner in the background: gigabytes of checkpoints may take seconds."""
    Thread(target=folders.clean, name="crenel-clean", daemon=True).start()


def starts_processes(thread: Thread) -> None:
    """Register a thread that may start another process at any moment, so that a stop waits for its end."""
    _state.starting.append(thread)


def kill_starting_processes() -> None:
    """Kill all descendants until no registered thread can start another process.

    Call it in the main thread, after its last output, when it starts no further processes.
    """
    if any(thread.is_alive() for thread in _state.starting):
        _state.is_blocked = True
        _fall_silent()
        _kill()


@contextmanager
def shielded_from_terminal() -> Iterator[None]:
    """Shield processes that this thread starts within the block from the signals of a terminal.

    Python would print a traceback in each. A stop of this process kills them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _block(number: int, frame: FrameType | None) -> NoReturn:
    _state.is_blocked = True
    time.sleep(_BLOCKED)
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
    """Discard further output to stderr, such as progress bars, except the final message."""
    with suppress(OSError):
        _state.error = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if os.isatty(_state.error):
            os.write(_state.error, _CLEAN)


def _stop(number: int) -> None:
    for step in reversed(_state.steps):
        with suppress(Exception):
            step()
    _end(number)


def _end(number: int) -> None:
    if not _state.ending.acquire(blocking=False):
        return  # another thread is ending the process
    try:
        _kill()
        for folder in _state.folders:
            folders.remove(folder)
        os.write(_state.error, f"crenel: {_state.message}\n".encode())
    finally:
        os._exit(128 + number)


def _kill() -> None:
    """Kill all descendants of this process."""
    until = time.monotonic() + _TO_END
    while time.monotonic() < until:
        processes: list[int] = []
        # Stopped processes start no others.
        while more := [process for process in descendants() if process not in processes]:
            processes += more
            _send(more, signal.SIGSTOP)
        _send(processes, signal.SIGKILL)
        if not processes and _state.is_blocked and not any(thread.is_alive() for thread in _state.starting):
            return
        time.sleep(0.02)


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(OSError):  # it has ended
            os.kill(process, number)


def descendants(process: int | None = None) -> list[int]:
    """Return the living descendants of a process (default: of this one), parents before children."""
    with suppress(psutil.NoSuchProcess):
        return [child.pid for child in psutil.Process(process).children(recursive=True) if _is_alive(child)]
    return []


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False
