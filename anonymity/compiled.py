"""How the core is compiled, and where the compiled code is kept.

Numba compiles a function anew when the file that holds it has changed, but not when a function that it calls has: old
code could go on making releases after an upgrade. So the cache has a folder for each version of these sources.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from numba import njit
from numba.core import config

F = TypeVar("F", bound=Callable[..., Any])

Int: TypeAlias = int | np.int64
"""An integer of compiled code, where all of them have 64 bits."""


def _sources() -> str:
    here = Path(__file__).parent
    digest = hashlib.blake2b(f"{numba.__version__}".encode(), digest_size=8)
    for path in sorted([*here.glob("*.py"), *(here.parent / "state").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Where compiled code is kept: below NUMBA_CACHE_DIR, XDG_CACHE_HOME, ~/.cache or a temporary folder."""
    candidates = [os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"), str(Path.home() / ".cache")]
    candidates.append(str(Path(tempfile.gettempdir()) / f"crenel-{os.getuid()}"))
    for folder in filter(None, candidates):
        found = Path(folder) / "crenel" / _sources()
        try:
            found.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(found, os.W_OK):
            return found
    raise OSError("no folder for compiled code can be written; set NUMBA_CACHE_DIR to one that can")


_FOLDER = str(cache_folder())


def _compile(function: F, **options: Any) -> F:
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = _FOLDER  # read when a function is decorated; other users of numba keep their own
    try:
        compiled: F = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    finally:
        settings.CACHE_DIR = before
    return compiled


def entry(function: F) -> F:
    """Compile a function that Python calls."""
    return _compile(function)


def inner(function: F) -> F:
    """Compile a function that only compiled functions call: without wrappers it takes a fraction of the time."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def leaf(function: F) -> F:
    """Compile an inner function that makes no array: it counts no references, which a small one would mostly do."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
