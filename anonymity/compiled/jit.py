"""How the core is compiled.

An *entry* is what Python calls. It is compiled once, with everything below it, and kept
(``crenel.anonymity.compiled.cache``). Its parts are kinds of functions of their own here, because numba optimizes each
function with all that it calls: a chain of calls would be optimized at every link, which takes minutes. A part is
optimized with its entry alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import numpy as np
from llvmlite.binding import parse_assembly
from llvmlite.ir import Constant
from numba import njit
from numba.core import config, types
from numba.core.codegen import CPUCodeLibrary
from numba.np import arrayobj

from crenel.anonymity.compiled.cache import AheadCache
from crenel.anonymity.compiled.folders import ahead, cached

F = TypeVar("F", bound=Callable[..., Any])

Int: TypeAlias = int | np.int64
"""An integer of compiled code, where all of them have 64 bits."""

_KEPT = cached("compiled") is not None


class _Compiling(threading.local):
    """What this thread compiles: the part of an entry, empty where it is an entry; and whether it is ours at all."""

    part = ""
    ours = False


_NOW = _Compiling()
_ENVIRONMENT = "_ZN08NumbaEnv"
_stopping = threading.Event()


def stop_compiling() -> None:
    """From here on whoever compiles in this process gets a ``SystemExit``, as soon as a function is through.

    To be called before a process ends while a thread of it compiles: LLVM takes away what it works on, and is killed.
    """
    _stopping.set()


def _unless_stopping() -> None:
    if _stopping.is_set():
        raise SystemExit


def _optimize_entries_only(library: Any, whole: Any = CPUCodeLibrary._optimize_final_module) -> None:
    _unless_stopping()
    if not _NOW.part:
        whole(library)


def _make_entries_only(library: Any, whole: Any = CPUCodeLibrary._finalize_final_module) -> None:
    # What was not optimized must not become machine code: the linker would take a procedure that it has seen for that
    # of an entry, and run it until the process ends. Of a part only the globals are made that numba sets at once.
    if library.name != _NOW.part:
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
    # An index below 0 counts from the end in Python. Ours never does, and asking at each costs a tenth of all the time.
    if not _NOW.ours or isinstance(index, Constant):
        return wrapped(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


arrayobj.fix_integer_index = _index_from_the_front
CPUCodeLibrary._optimize_final_module = _optimize_entries_only  # type: ignore[method-assign]
CPUCodeLibrary._finalize_final_module = _make_entries_only  # type: ignore[method-assign]


def _compiled(function: Any, *, part: bool, apart: bool = False, **options: Any) -> Any:
    dispatcher: Any = njit(nogil=True, error_model="numpy", **options)(function)
    compile_as_numba_does = dispatcher._compiler.compile

    def compile_it(arguments: Any, result: Any) -> Any:
        _unless_stopping()
        before, ours = _NOW.part, _NOW.ours
        _NOW.part, _NOW.ours = function.__qualname__ if part else "", True
        try:
            made = compile_as_numba_does(arguments, result)
        finally:
            _NOW.part, _NOW.ours = before, ours
        if apart:
            made.library._final_module.get_function(made.fndesc.llvm_func_name).add_function_attribute("noinline")
        return made

    dispatcher._compiler.compile = compile_it
    return dispatcher


def _compiled_part(function: Any, *, apart: bool = False, **options: Any) -> Any:
    # Without wrappers for Python it takes a fraction of the time. What is not set is inherited from the caller.
    return _compiled(function, part=True, apart=apart, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def entry(function: F) -> F:
    """Compile a function that Python calls, with all of its parts, and keep what was compiled."""
    with _looking_in("ByContent"):
        dispatcher = _compiled(function, part=False, cache=_KEPT)
    if ahead() is not None:
        with _looking_in("Ahead"):
            dispatcher._cache = AheadCache(function, dispatcher._cache)
    return dispatcher


@contextmanager
def _looking_in(locator: str) -> Iterator[None]:
    # Numba reads which locator to ask when a cache is made.
    settings: Any = config
    before = settings.CACHE_LOCATOR_CLASSES
    settings.CACHE_LOCATOR_CLASSES = f"crenel.anonymity.compiled.cache.{locator}"
    try:
        yield
    finally:
        settings.CACHE_LOCATOR_CLASSES = before


def inner(function: F) -> F:
    """Compile a part that is called for each tuple: it becomes part of its caller."""
    return _compiled_part(function, forceinline=True, _nrt=True)


def procedure(function: F) -> F:
    """Compile a part that is called for some tuples only: it stays a function of its own, and is compiled once."""
    return _compiled_part(function, forceinline=False, _nrt=True, apart=True)


def leaf(function: F) -> F:
    """Compile a part that makes no array: it counts no references, which a small one would mostly do."""
    return _compiled_part(function, _nrt=False)


def inner_leaf(function: F) -> F:
    """Compile a leaf that does less than it costs to pass its arrays: it becomes part of its caller."""
    return _compiled_part(function, forceinline=True, _nrt=False)
