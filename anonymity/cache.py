"""Where things are kept that can be made again: compiled code, and what Java needs to start quickly."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cached(name: str) -> Path:
    """A folder that can be written: below NUMBA_CACHE_DIR, XDG_CACHE_HOME, ~/.cache or a temporary folder.

    Raises
    ------
    OSError
        There is none.
    """
    candidates = [os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"), str(Path.home() / ".cache")]
    candidates.append(str(Path(tempfile.gettempdir()) / f"crenel-{os.getuid()}"))
    for folder in filter(None, candidates):
        found = Path(folder) / "crenel" / name
        try:
            found.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(found, os.W_OK):
            return found
    raise OSError("no folder for compiled code can be written; set NUMBA_CACHE_DIR to one that can")
