"""Cache folders for data that can be rebuilt: compiled code, and files that let Java start quickly."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

_NAMED = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
"""Variables that name a folder of caches, the first of which is tried first."""

PACKAGED = Path(__file__).with_name("code")
"""The folder of compiled code that a wheel for one platform contains."""


def cached(name: str) -> Path | None:
    """Return a private cache folder: below NUMBA_CACHE_DIR, XDG_CACHE_HOME, ~/.cache or a temporary folder.

    Code in it is executed, so no other user may write to it or have created it: it belongs to this user and has the
    mode 0700. Only root and this user may replace it, so each folder above it is guarded as for ``precompiled_dir``. A
    location that fails these checks is skipped. The result is None where no location qualifies and no folder can be
    created.
    """
    for ours in _candidates():
        try:
            # Links are resolved once, here, so that the owner of a link cannot redirect later accesses.
            ours = ours.parent.resolve() / ours.name
            for above in reversed(ours.parents):
                above.mkdir(mode=0o700, exist_ok=True)
            if not all(map(_is_guarded, ours.parents)):
                continue
            ours.mkdir(mode=0o700, exist_ok=True)
            if _is_private(ours) and os.access(ours, os.W_OK):
                (ours / name).mkdir(parents=True, exist_ok=True)
                return ours / name
        except OSError:
            continue
    return None


def _candidates() -> Iterator[Path]:
    """Yield possible cache folders, each found only if no earlier one serves: some machines have no home or no /tmp."""
    yield from (Path(named) / "crenel" for name in _NAMED if (named := os.environ.get(name)))
    with suppress(RuntimeError):  # the user has no home
        yield Path.home() / ".cache" / "crenel"
    with suppress(OSError):  # no temporary folder can be written
        # Directly in the temporary folder: nobody can move another user's files in a sticky folder.
        yield Path(tempfile.gettempdir()) / f"crenel-{os.geteuid()}"


@cache
def precompiled_dir() -> Path | None:
    """Return the folder of code compiled ahead of time; None without one.

    ``CRENEL_COMPILED`` names it, as in an image; otherwise a wheel may have brought one. It is only read. Code in it is
    executed, so only root and this user may write to a named one or replace it. Otherwise it is ignored with a warning.
    One of a wheel is beside the sources, and guarded as they are.
    """
    named = os.environ.get("CRENEL_COMPILED")
    if named is None and PACKAGED.is_dir():
        return PACKAGED
    if not named:
        return None
    folder = Path(named).resolve()
    if folder.is_dir() and all(_is_guarded(each) for each in (folder, *folder.parents)):
        return folder
    warnings.warn(
        f"CRENEL_COMPILED: {named} is not read; it is no folder, or others than root and this user may write to it",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _is_guarded(folder: Path) -> bool:
    """Return whether only root and this user may write to a folder; a sticky folder protects each user's files."""
    status = folder.stat()
    return status.st_uid in (0, os.geteuid()) and (not status.st_mode & 0o022 or bool(status.st_mode & stat.S_ISVTX))


def _is_private(folder: Path) -> bool:
    """Return whether a folder belongs to this user alone; one that others could only read is closed to them first."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    if status.st_mode & 0o022:  # another user may have put code there
        return False
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    return True
