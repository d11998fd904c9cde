"""Arrays of a shard behind one pointer, for compiled functions.

Numba passes a NamedTuple field by field: with all the arrays of a shard, each call would move hundreds of values and
take minutes to compile. ``share`` describes the same arrays in memory, in the form in which compiled code holds an
array, so that one pointer is passed; a NamedTuple in it becomes a pointer too. Compiled code reads the same fields.

The arrays are borrowed, because counting references to them would take a third of the run time. Compiled code cannot
exchange an array for another, so it reads a description once.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

_WORD = 8
"""Bytes of each value in a description."""


class Borrowed(types.Type):
    """The numba type of a pointer to the description of a NamedTuple of arrays.

    Attributes
    ----------
    shape : name of the NamedTuple
    fields : name, numba type and number of values in the description, for each field
    """

    def __init__(self, shape: str, fields: tuple[tuple[str, Any, int], ...]) -> None:
        self.shape = shape
        self.fields = fields
        # The name is part of each symbol, so it is short.
        digest = sha256(repr([(name, str(kind)) for name, kind, _ in fields]).encode()).hexdigest()
        super().__init__(f"{shape}[{digest[:16]}]")


@register_model(Borrowed)
class _BorrowedModel(models.PrimitiveModel):
    """A pointer to bytes: the place of a field follows from the type."""

    def __init__(self, manager: Any, kind: Borrowed) -> None:
        super().__init__(manager, kind, ir.IntType(8).as_pointer())  # type: ignore[no-untyped-call]


class Description:
    """The Python form of a pointer: it keeps the arrays and their description."""

    def __init__(self, kind: Borrowed, arrays: Any, words: list[int], parts: list[Description]) -> None:
        self.kind = kind
        self.arrays = arrays
        self._words = np.array(words, np.int64)
        self._parts = parts
        self.address = int(self._words.ctypes.data)


@typeof_impl.register(Description)
def _type_of(description: Description, _context: Any) -> Borrowed:
    return description.kind


def _unbox(_kind: Borrowed, description: Any, context: Any) -> NativeValue:
    address = context.pyapi.object_getattr_string(description, "address")
    number = context.pyapi.long_as_longlong(address)
    context.pyapi.decref(address)
    return NativeValue(context.builder.inttoptr(number, ir.IntType(8).as_pointer()))


unbox(Borrowed)(_unbox)


@infer_getattr
class _Fields(AttributeTemplate):
    """The types of fields."""

    key = Borrowed

    def generic_resolve(self, kind: Borrowed, name: str) -> Any:  # type: ignore[override]
        return next((field_type for field, field_type, _ in kind.fields if field == name), None)


def _read(context: Any, builder: Any, kind: Borrowed, pointer: Any, name: str) -> Any:
    index = [field for field, _, _ in kind.fields].index(name)
    start, field_type = sum(words for _, _, words in kind.fields[:index]), kind.fields[index][1]
    place = builder.gep(pointer, [ir.Constant(ir.IntType(64), start * _WORD)], inbounds=True)
    value = builder.load(builder.bitcast(place, context.get_value_type(field_type).as_pointer()))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    if not isinstance(field_type, types.Array):
        return value
    array = context.make_array(field_type)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)  # without an owner, no reference is counted
    return array._getvalue()


lower_getattr_generic(Borrowed)(_read)


def share(arrays: Any) -> Any:
    """Return a description of a NamedTuple of arrays, records and such NamedTuples, which keeps them.

    Raises
    ------
    TypeError
        A field is something else.
    """
    kinds: list[Any] = []
    words: list[int] = []
    parts: list[Description] = []
    for value in arrays:
        if isinstance(value, tuple):
            parts.append(share(value))
            kinds.append(parts[-1].kind)
            words.append(parts[-1].address)
        elif isinstance(value, np.ndarray):
            flags = value.flags
            kinds.append(_array_type(value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable))
            words += (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        elif isinstance(value, np.void):
            kinds.append(_record_type(value.dtype))
            words.append(np.frombuffer(value, np.uint8).ctypes.data)
        else:
            raise TypeError(f"a shard's arrays hold no {type(value).__name__}")
    shape: Any = type(arrays)
    return Description(_pointer_type(shape, tuple(kinds)), arrays, words, parts)


@cache
def _array_type(dtype: Any, dimensions: int, is_c: bool, is_fortran: bool, is_writeable: bool) -> Any:
    return types.Array(from_dtype(dtype), dimensions, "C" if is_c else "F" if is_fortran else "A", not is_writeable)


@cache
def _record_type(dtype: Any) -> Any:
    return from_dtype(dtype)


@cache
def _pointer_type(shape: Any, kinds: tuple[Any, ...]) -> Borrowed:
    widths = (5 + 2 * kind.ndim if isinstance(kind, types.Array) else 1 for kind in kinds)
    return Borrowed(shape.__name__, tuple(zip(shape._fields, kinds, widths, strict=True)))
