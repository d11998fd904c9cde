"""Compilation of the core with numba.

Python calls an *entry*. It is compiled once, with all functions that it calls, and cached
(``crenel.anonymity.compiled.cache``). Its parts are compiled differently, because numba optimizes each function
together with all that it calls. A chain of calls would be optimized again at every link, which takes minutes. A part is
optimized with its entry alone.

Numba has no setting for this, so some of its functions are replaced (``replace_in_numba``) while a function of this
module compiles, and at no other time: other users of numba in the process do not notice. Under another version of numba
than the replacements were written for, nothing is replaced, and compilation takes longer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from llvmlite.binding import parse_assembly
from llvmlite.ir import Constant
from numba import njit
from numba.core import config, types
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.np import arrayobj

from crenel.anonymity.compiled.cache import PrecompiledCache
from crenel.anonymity.compiled.folders import cached, precompiled_dir

F = TypeVar("F", bound=Callable[..., Any])

Int: TypeAlias = int | np.int64
"""An integer of compiled code, where all of them have 64 bits."""

_KEPT = cached("compiled") is not None


_IS_REPLACED = numba.__version__.startswith("0.68.")
"""Whether this version of numba is the one that the replacements were written for."""

_ENVIRONMENT = "_ZN08NumbaEnv"
_stopping = threading.Event()
_replacements: list[tuple[Any, str, Any]] = []
_part: str | None = None
"""Name of the part that compiles, empty for an entry, None for neither. Numba's compiler lock protects it."""


def stop_compiling() -> None:
    """Make every further compilation in this process raise ``SystemExit``, as soon as the current function is compiled.

    Call it before a process ends while a thread compiles. Otherwise LLVM frees its data during its work, and crashes.
    """
    _stopping.set()


def _unless_stopping() -> None:
    if _stopping.is_set():
        raise SystemExit


def replace_in_numba(owner: Any, name: str, replacement: Any) -> None:
    """Let ``replacement`` take the place of an attribute of numba while a function of this module compiles."""
    _replacements.append((owner, name, replacement))


@contextmanager
def _compiling(part: str) -> Iterator[None]:
    """Replace functions of numba for the duration of the block, which compiles a part; empty: an entry."""
    global _part
    with global_compiler_lock:  # other threads wait to compile
        before, _part = _part, part
        replaced = _replacements if _IS_REPLACED and before is None else []
        own = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
        try:
            for owner, name, replacement in replaced:
                setattr(owner, name, replacement)
            yield
        finally:
            for owner, name, function in own:
                setattr(owner, name, function)
            _part = before


def _optimize_entries_only(library: Any, whole: Any = CPUCodeLibrary._optimize_final_module) -> None:
    _unless_stopping()
    if not _part:
        whole(library)


def _make_entries_only(library: Any, whole: Any = CPUCodeLibrary._finalize_final_module) -> None:
    # Unoptimized code must not become machine code: the linker would use it in place of the entry's procedure, until
    # the process ends. For a part, only the globals are emitted that numba sets at once.
    if library.name != _part:
        whole(library)
        return
    complete = library._final_module
    named = [str(found) for found in complete.global_variables if found.name.startswith(_ENVIRONMENT)]
    library._final_module = parse_assembly("\n".join([f'target triple = "{complete.triple}"', *named]))
    whole(library)
    library._final_module = complete


def _index_from_the_front(
    context: Any, builder: Any, kind: Any, index: Any, size: Any, wrapped: Any = arrayobj.fix_integer_index
) -> Any:
    # In Python an index below 0 counts from the end. Crenel uses none, and the test at each index takes a tenth of the
    # run time.
    if isinstance(index, Constant):
        return wrapped(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


replace_in_numba(arrayobj, "fix_integer_index", _index_from_the_front)
replace_in_numba(CPUCodeLibrary, "_optimize_final_module", _optimize_entries_only)
replace_in_numba(CPUCodeLibrary, "_finalize_final_module", _make_entries_only)


def _compiled(function: Any, *, part: bool, apart: bool = False, **options: Any) -> Any:
    dispatcher: Any = njit(nogil=True, error_model="numpy", **options)(function)
    compile_as_numba_does = dispatcher._compiler.compile

    def compile_it(arguments: Any, result: Any) -> Any:
        _unless_stopping()
        with _compiling(function.__qualname__ if part else ""):
            made = compile_as_numba_does(arguments, result)
        if apart:
            made.library._final_module.get_function(made.fndesc.llvm_func_name).add_function_attribute("noinline")
        return made

    dispatcher._compiler.compile = compile_it
    return dispatcher


def _compiled_part(function: Any, *, apart: bool = False, **options: Any) -> Any:
    # Omitting wrappers for Python saves most of the compile time. Unset options are inherited from the caller.
    return _compiled(function, part=True, apart=apart, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def entry(function: F) -> F:
    """Compile a function that Python calls, with all of its parts, and cache the result."""
    with _looking_in("ByContent"):
        dispatcher = _compiled(function, part=False, cache=_KEPT)
    if precompiled_dir() is not None:
        with _looking_in("Precompiled"):
            dispatcher._cache = PrecompiledCache(function, dispatcher._cache)
    return dispatcher


@contextmanager
def _looking_in(locator: str) -> Iterator[None]:
    # Numba reads the locator classes when a cache is created.
    settings: Any = config
    before = settings.CACHE_LOCATOR_CLASSES
    settings.CACHE_LOCATOR_CLASSES = f"crenel.anonymity.compiled.cache.{locator}"
    try:
        yield
    finally:
        settings.CACHE_LOCATOR_CLASSES = before


def inner(function: F) -> F:
    """Compile a part that is called for each tuple; it is inlined into its caller."""
    return _compiled_part(function, forceinline=True, _nrt=True)


def procedure(function: F) -> F:
    """Compile a part that is called for some tuples only; it stays a separate function, compiled once."""
    return _compiled_part(function, forceinline=False, _nrt=True, apart=True)


def leaf(function: F) -> F:
    """Compile a part that creates no array, without reference counting, which would dominate a small function."""
    return _compiled_part(function, _nrt=not _IS_REPLACED)


def inner_leaf(function: F) -> F:
    """Compile a leaf that is cheaper than passing its arrays; it is inlined into its caller."""
    return _compiled_part(function, forceinline=True, _nrt=not _IS_REPLACED)
