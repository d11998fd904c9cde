"""Temporary folders of this user, each locked by its owner process until that process ends.

The next command removes a folder without a living owner, however the owner ended. The lock is one of the kernel
(``flock``) on a file inside. The kernel releases it with the process, even after ``kill -9``, and a lock cannot be
confused by reused process numbers. A folder without that file is not managed here, and stays.
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
    """Result of removing folders of ended processes.

    Attributes
    ----------
    removed : number of removed folders
    size : bytes of the files in them
    owned : number of folders that a living process owns, which stay
    failed : folders that could not be removed completely
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
        with suppress(OSError):  # a file system without locks, where no process can lock
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
    """Let a folder outlive this process, until ``clean`` removes it, or a command after ``KEPT_DAYS``."""
    with suppress(OSError):  # a full disk: the next command removes the folder
        (path / _KEPT).write_text(_KEPT_TEXT, encoding="utf-8")
    _release(path)


def clean(*, kept: bool = False) -> Cleaned:
    """Remove the folders that no living process owns; ``kept``: also logs younger than ``KEPT_DAYS``.

    Only folders with exclusive access for this user are considered, and no symbolic link is followed.
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
                freed = _size(path)
                _remove(path)
                if path.exists():
                    failed.append(path)
                else:
                    removed, size = removed + 1, size + freed
    return Cleaned(removed, size, owned, tuple(failed))


def _release(path: Path) -> None:
    if (lock := _locks.pop(path, None)) is not None:
        os.close(lock)


def _candidates() -> Iterator[Path]:
    """Yield folders with a matching name and exclusive access for this user."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with suppress(OSError):  # it was removed
                    status = entry.stat(follow_symlinks=False)
                    private = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700
                    if private and status.st_uid == os.geteuid():
                        yield Path(entry.path)


@contextmanager
def _seized(path: Path) -> Iterator[bool | None]:
    """Own an abandoned folder for the duration of the block.

    True: this process owns it for now. False: a living process owns it. None: it is not managed here, or was removed.
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
        # The previous owner of the lock may have removed the folder.
        yield True if _is_at(lock, path / _LOCK) else None
    finally:
        os.close(lock)


def _is_at(file: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except OSError:
        return False


def _is_young(marker: Path) -> bool:
    """Return whether a folder is kept, and its time has not passed."""
    try:
        return time.time() - marker.lstat().st_mtime < KEPT_DAYS * 86_400
    except OSError:
        return False


def _remove(path: Path) -> None:
    """Remove a folder, its lock file last, so that the next command can finish an interrupted removal."""
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
        except OSError:  # Java ends a moment after a killed command, and may have written again
            os.close(os.open(path / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _size(path: Path) -> int:
    """Return the bytes of the files in a folder."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
