"""How the core is compiled."""

from __future__ import annotations

from numba import njit

entry = njit(cache=True, nogil=True, error_model="numpy")
"""A function that Python calls."""

inner = njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""A function that only compiled functions call: without wrappers it compiles several times faster."""
