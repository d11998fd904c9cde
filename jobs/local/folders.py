"""Temporary folders of this user, each locked by the process that owns it until the process ends.

A folder without a living owner is removed by the next command, whatever ended the process that made it. The lock is one
of the kernel (``flock``) on a file inside: the kernel releases it with the process, also after ``kill -9``, and no
number of a process can be mistaken for that of another. A folder without that file is none of these, and stays.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_LOCK = ".crenel-owner"
_KEPT = "KEPT"
_KEPT_TEXT = "Logs of a failed run, which may hold values of records. `crenel clean` removes them at once.\n"
_NAME = re.compile(r"crenel-(?:[a-z]+-)?[0-9a-f]{32}")
KEPT_DAYS = 7
"""Days after which a command removes the logs of a failed run."""

_locks: dict[Path, int] = {}


@dataclass(frozen=True)
class Cleaned:
    """Folders of ended processes that were removed.

    Attributes
    ----------
    removed : number of folders that are gone
    size : bytes of the files in them
    owned : number of folders that a living process owns, which stay
    failed : folders that could not be removed whole
    """

    removed: int
    size: int
    owned: int
    failed: tuple[Path, ...]


def make(path: Path) -> None:
    """Make a folder for this user alone, and own it until ``remove``, ``keep`` or the end of this process."""
    while True:
        path.mkdir(mode=0o700)
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # a file system without locks, where nobody else gets one either
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_at(lock, path / _LOCK):
            _locks[path] = lock
            return
        os.close(lock)  # another command took the folder for an abandoned one, and has removed it


def remove(path: Path) -> None:
    """Remove a folder that this process owns."""
    _remove(path)
    _release(path)


def keep(path: Path) -> None:
    """Let a folder outlive this process, until ``clean`` or ``KEPT_DAYS`` later."""
    with suppress(OSError):  # a full disk: the next command removes the folder
        (path / _KEPT).write_text(_KEPT_TEXT, encoding="utf-8")
    _release(path)


def clean(*, kept: bool = False) -> Cleaned:
    """Remove the folders that no living process owns; with ``kept`` also the logs that are younger than ``KEPT_DAYS``.

    Only folders of this user that nobody else may enter are looked at, and no symbolic link is followed.
    """
    removed = size = owned = 0
    failed: list[Path] = []
    for path in _candidates():
        with _seized(path) as seized:
            if seized is None:
                continue
            if not seized:
                owned += 1
            elif kept or not _is_young(path / _KEPT):
                held = _size(path)
                _remove(path)
                if path.exists():
                    failed.append(path)
                else:
                    removed, size = removed + 1, size + held
    return Cleaned(removed, size, owned, tuple(failed))


def _release(path: Path) -> None:
    if (lock := _locks.pop(path, None)) is not None:
        os.close(lock)


def _candidates() -> Iterator[Path]:
    """Folders of this user alone that have a name of ours."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with suppress(OSError):  # it has gone
                    found = entry.stat(follow_symlinks=False)
                    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
                    if private and found.st_uid == os.geteuid():
                        yield Path(entry.path)


@contextmanager
def _seized(path: Path) -> Iterator[bool | None]:
    """Own an abandoned folder for as long as the block lasts.

    True: it is ours for now. False: a living process owns it. None: it is no folder of ours, or has gone.
    """
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        # Whoever had the lock before may have removed the folder.
        yield True if _is_at(lock, path / _LOCK) else None
    finally:
        os.close(lock)


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except OSError:
        return False


def _is_young(marker: Path) -> bool:
    """Whether a folder is kept, and not for too long already."""
    try:
        return time.time() - marker.lstat().st_mtime < KEPT_DAYS * 86_400
    except OSError:
        return False


def _remove(path: Path) -> None:
    """Remove a folder, the lock last: by it the next command finds what a removal that was cut off has left."""
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != _LOCK:
                with suppress(OSError):
                    os.unlink(entry.path)
    with suppress(OSError):
        os.unlink(path / _LOCK)
        try:
            os.rmdir(path)
        except OSError:  # Java, which ends a moment after the command that was killed, may have written again
            os.close(os.open(path / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _size(path: Path) -> int:
    """Bytes of the files in a folder."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
