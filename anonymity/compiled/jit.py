"""Compilation of the core with numba.

Python calls an *entry*. It is compiled once, with all functions that it calls, and cached
(``crenel.anonymity.compiled.cache``). Its parts are compiled differently, because numba optimizes each function
together with all that it calls. A chain of calls would be optimized again at every link, which takes minutes. A part is
optimized with its entry alone.

Numba's compiler is extended as its manual describes ("Customizing the Compiler"), and stays as it is for others: each
kind of function has a pipeline of its own, and a part has a library of its own (``_PartLibrary``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from llvmlite.binding import parse_assembly
from numba import njit
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import AnnotateTypes

from crenel.anonymity.compiled.cache import LocalCache, PrecompiledCache
from crenel.anonymity.compiled.folders import cached, precompiled_dir

F = TypeVar("F", bound=Callable[..., Any])

Int: TypeAlias = int | np.int64
"""An integer of compiled code, where all of them have 64 bits."""

_KEPT = cached("compiled") is not None

_ENVIRONMENT = "_ZN08NumbaEnv"
"""Start of the names of globals that numba sets as soon as a function is compiled."""

_stopping = threading.Event()


def stop_compiling() -> None:
    """Make every further compilation in this process raise ``SystemExit``, as soon as the current function is compiled.

    Call it before a process ends while a thread compiles. Otherwise LLVM frees its data during its work, and crashes.
    """
    _stopping.set()


def _unless_stopping() -> None:
    if _stopping.is_set():
        raise SystemExit


class _PartLibrary(JITCodeLibrary):
    """Code of a part: it is linked into entries, where it is optimized, and does not become machine code itself.

    Unoptimized machine code would be used in place of the entry's procedure, until the process ends, because the linker
    uses the first code of a name. A version of numba without one of the two methods would do its own work instead.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        complete = self._final_module
        named = [str(variable) for variable in complete.global_variables if variable.name.startswith(_ENVIRONMENT)]
        self._final_module = parse_assembly("\n".join([f'target triple = "{complete.triple}"', *named]))
        super()._finalize_final_module()  # type: ignore[no-untyped-call]
        self._final_module = complete


class _ProcedureLibrary(_PartLibrary):
    """Code of a procedure, which LLVM does not inline."""

    def add_ir_module(self, ir_module: Any) -> None:
        for function in ir_module.functions:
            if not function.is_declaration and not function.linkage:  # others are small helpers of numba
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)  # type: ignore[no-untyped-call]


class _Pass(LoweringPass):
    """A step of compilation."""

    def __init__(self) -> None:  # numba's is abstract
        LoweringPass.__init__(self)


@register_pass(mutates_CFG=False, analysis_only=False)
class _IndexFromTheFront(_Pass):
    """Let the indexes of arrays count from the front, as unsigned ones do.

    In Python an index below 0 counts from the end. Crenel uses none but literals, and the test at each index takes a
    tenth of the run time.
    """

    _name = "crenel_index_from_the_front"

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            reads = ((node, node.index) for node in block.find_exprs("getitem"))
            for at, index in (*reads, *((node, node.index) for node in block.find_insts(ir.SetItem))):
                signature = state.calltypes[at]
                if isinstance(signature.args[0], types.Array):
                    del state.calltypes[at]  # numba's dictionary takes each key once
                    position = _unsigned(signature.args[1], state.typemap[index.name])
                    state.calltypes[at] = signature.replace(args=(signature.args[0], position, *signature.args[2:]))
        return True


def _unsigned(kind: Any, of_variable: Any) -> Any:
    """Return the unsigned form of an index's type; literals and all that is no integer remain as they are."""
    if isinstance(kind, types.Tuple | types.UniTuple):
        pairs = zip(kind.types, of_variable.types, strict=True)
        return types.BaseTuple.from_types([_unsigned(*pair) for pair in pairs])
    is_whole = isinstance(kind, types.Integer) and not isinstance(of_variable, types.Literal)
    return types.uintp if is_whole else kind


@register_pass(mutates_CFG=False, analysis_only=False)
class _OwnLibrary(_Pass):
    """Put the code of a function into the kind of library that its pipeline names."""

    _name = "crenel_own_library"

    def run_pass(self, state: Any) -> bool:
        _unless_stopping()
        if state.pipeline.library is not None:
            state.library = state.pipeline.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return True


class _Entry(CompilerBase):
    """Compilation of an entry, whose library is numba's own."""

    library: type[_PartLibrary] | None = None

    def define_pipelines(self) -> list[Any]:
        _unless_stopping()
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        for added in (_OwnLibrary, _IndexFromTheFront):
            passes.add_pass_after(added, AnnotateTypes)
        passes.finalize()
        return [passes]


class _Part(_Entry):
    """Compilation of a part."""

    library = _PartLibrary


class _Procedure(_Entry):
    """Compilation of a procedure."""

    library = _ProcedureLibrary


def _compiled(function: Any, pipeline: type[_Entry], **options: Any) -> Any:
    return njit(nogil=True, error_model="numpy", pipeline_class=pipeline, **options)(function)


def _compiled_part(function: Any, pipeline: type[_Entry] = _Part, **options: Any) -> Any:
    # Omitting wrappers for Python saves most of the compile time. Unset options are inherited from the caller.
    return _compiled(function, pipeline, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def entry(function: F) -> F:
    """Compile a function that Python calls, with all of its parts, and cache the result."""
    dispatcher = _compiled(function, _Entry, no_cfunc_wrapper=True)
    if _KEPT:
        dispatcher._cache = LocalCache(function)  # type: ignore[no-untyped-call]
    if precompiled_dir() is not None:
        dispatcher._cache = PrecompiledCache(function, dispatcher._cache)
    return dispatcher


def inner(function: F) -> F:
    """Compile a part that is called for each tuple; it is inlined into its caller."""
    return _compiled_part(function, forceinline=True, _nrt=True)


def procedure(function: F) -> F:
    """Compile a part that is called for some tuples only; it stays a separate function, compiled once."""
    return _compiled_part(function, _Procedure, forceinline=False, _nrt=True)


def leaf(function: F) -> F:
    """Compile a part that creates no array, without reference counting, which would dominate a small function."""
    return _compiled_part(function, _nrt=False)


def inner_leaf(function: F) -> F:
    """Compile a leaf that is cheaper than passing its arrays; it is inlined into its caller."""
    return _compiled_part(function, forceinline=True, _nrt=False)
