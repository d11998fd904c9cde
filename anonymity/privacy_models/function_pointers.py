"""Calls from compiled code to a ``PrivacyModel.lacking`` that is known only by its address.

The calling code is therefore compiled once, and not again for each job's privacy models.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from crenel.anonymity.compiled.jit import entry

_WHOLE, _REAL = types.CPointer(types.int64), types.CPointer(types.float64)
_OF_COUNTS = (types.int64, _WHOLE, types.int64, _REAL, types.int64)
_OF_VALUES = (*_OF_COUNTS, _WHOLE, types.int64, _REAL, types.int64)

_KEPT: list[Any] = []
"""Compiled functions in use, kept so that their addresses stay valid."""


@cache
def address_of(lacking: Callable[..., float], *, compares: bool) -> int:
    """Compile a ``PrivacyModel.lacking`` and return its address; ``compares`` as in the privacy model."""
    # Code of another project is compiled anew, because changes in what it calls are not seen.
    compiled: Any = entry(lacking) if lacking.__module__.startswith("crenel.") else njit(lacking)

    def count(persons: Any, counts: Any, values: Any, parameters: Any, numbers: Any) -> Any:
        return compiled(persons, carray(counts, values), carray(parameters, numbers))

    def compare(
        persons: Any,
        counts: Any,
        values: Any,
        parameters: Any,
        numbers: Any,
        rows: Any,
        known: Any,
        reference: Any,
        length: Any,
    ) -> Any:
        table = carray(reference, length)
        return compiled(persons, carray(counts, values), carray(parameters, numbers), carray(rows, known), table)

    made: Any = cfunc(types.float64(*_OF_VALUES))(compare) if compares else cfunc(types.float64(*_OF_COUNTS))(count)
    _KEPT.append(made)
    return int(made.address)


def _codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    integer, real = ir.IntType(64), ir.DoubleType()
    arrays = [context.make_array(signature.args[i])(context, builder, args[i]) for i in range(2, len(args))]
    sized = [part for array in arrays for part in (array.data, builder.extract_value(array.shape, 0))]
    function = ir.FunctionType(real, [integer, *(part.type for part in sized)])
    pointer = builder.inttoptr(args[0], function.as_pointer())
    return builder.call(pointer, [args[1], *sized])


def _on_counts(_context: Any, address: Any, persons: Any, counts: Any, parameters: Any) -> Any:
    return types.float64(address, persons, counts, parameters), _codegen


def _on_values(
    _context: Any, address: Any, persons: Any, counts: Any, parameters: Any, rows: Any, reference: Any
) -> Any:
    return types.float64(address, persons, counts, parameters, rows, reference), _codegen


call_on_counts: Any = intrinsic(_on_counts)
"""Call ``lacking(persons, counts, parameters)`` at an address; all arrays are contiguous."""

call_on_values: Any = intrinsic(_on_values)
"""Call ``lacking(persons, counts, parameters, rows, reference)`` at an address; all arrays are contiguous."""
