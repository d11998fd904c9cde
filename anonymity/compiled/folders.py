"""Where things are kept that can be made again: compiled code, and what Java needs to start quickly."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from functools import cache
from pathlib import Path


def cached(name: str) -> Path | None:
    """A folder of our own: below NUMBA_CACHE_DIR, XDG_CACHE_HOME, ~/.cache or a temporary folder.

    Code in it is run, so nobody else may write to it, nor have made it: it belongs to this user and has the mode 0700.
    Nobody but root and this user may exchange it either, so each folder above it is guarded as those above ``ahead``. A
    place where that does not hold is passed over. None where there is no such folder and none can be made.
    """
    named = (os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"), str(Path.home() / ".cache"))
    # Right in the temporary folder: nobody can move what is another's in a sticky one.
    temporary = Path(tempfile.gettempdir()) / f"crenel-{os.geteuid()}"
    for ours in (*(Path(folder) / "crenel" for folder in named if folder), temporary):
        try:
            # Links on the way are followed once, here: whoever owns one cannot lead elsewhere what comes later.
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


@cache
def ahead() -> Path | None:
    """The folder that ``CRENEL_COMPILED`` names, of code that was compiled ahead, as an image has it; None: none.

    It is only read. Code in it is run, so nobody but root and this user may write to it, nor exchange it for another:
    else it is left alone, with a warning.
    """
    named = os.environ.get("CRENEL_COMPILED")
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
    """Whether only root and this user may write to a folder; in a sticky one others cannot touch what is theirs."""
    found = folder.stat()
    return found.st_uid in (0, os.geteuid()) and (not found.st_mode & 0o022 or bool(found.st_mode & stat.S_ISVTX))


def _is_private(folder: Path) -> bool:
    """Whether a folder is ours alone; one that others could only read is closed to them first."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    if found.st_mode & 0o022:  # somebody may have put code there
        return False
    if found.st_mode & 0o077:
        folder.chmod(0o700)
    return True
