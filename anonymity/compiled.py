"""How the core is compiled, and where the compiled code is kept.

Numba compiles a function anew when the file that holds it has changed, but not when a function that it calls has: old
code could go on making releases after an upgrade. So the cache has a folder for each version of these sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from numba import njit
from numba.core import config

from anonymity.cache import cached

F = TypeVar("F", bound=Callable[..., Any])

Int: TypeAlias = int | np.int64
"""An integer of compiled code, where all of them have 64 bits."""


def _sources() -> str:
    here = Path(__file__).parent
    digest = hashlib.blake2b(f"{numba.__version__}".encode(), digest_size=8)
    for path in sorted([*here.glob("*.py"), *(here.parent / "state").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_FOLDER = str(cached(_sources()))


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
