"""Conversion of a shard's arrays to one pointer, for compiled functions.

Numba passes a NamedTuple field by field: with all the arrays of a shard, each call would move hundreds of values and
take minutes to compile. ``by_reference`` returns a function that wraps the same arrays in structures, which are passed
as one pointer and have the same fields. The arrays are borrowed, because counting references to them would take a third
of the run time. The caller must keep the arrays alive until the compiled function returns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from numba import types
from numba.core import cgutils
from numba.core.runtime.context import NRTContext
from numba.experimental import structref
from numba.extending import intrinsic

from crenel.anonymity.compiled.jit import entry, replace_in_numba


def _data_pointer(self: Any, value: Any) -> Any:
    """Return numba's data pointer of a structure, also without reference counting, so that a leaf may read it."""
    nrt = NRTContext(self.context, True)
    pointer = nrt.meminfo_data(self.builder, self.get_struct_ref(value).meminfo)
    model = self.context.data_model_manager[self.struct_type.get_data_type()]
    return self.builder.bitcast(pointer, model.get_value_type().as_pointer())


replace_in_numba(structref._Utils, "get_data_pointer", _data_pointer)


class Fields(types.StructRef):
    """The numba type of a structure whose fields have any types."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(typ)) for name, typ in fields)


class Proxy(structref.StructRefProxy):
    """The Python view of a structure, which can only be passed on."""


def _borrowed(_context: Any, value: Any) -> Any:
    """Return the same arrays, in tuples of any depth, without an owner, so that reading one counts no reference."""

    def lent(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            return array._getvalue()
        if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
            items = [lent(context, builder, k, builder.extract_value(value, i)) for i, k in enumerate(kind.types)]
            return context.make_tuple(builder, kind, items)
        return value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return lent(context, builder, signature.args[0], args[0])

    return value(value), codegen


borrowed: Any = intrinsic(_borrowed)


def by_reference(shape: type, *parts: type) -> Callable[[Any], Any]:
    """Return a function from a NamedTuple of arrays to a structure over the same arrays.

    The structures are valid while the arrays are kept. Their classes become names of the calling module, where numba's
    cache of compiled code finds them.

    Parameters
    ----------
    shape : the NamedTuple; its fields may be NamedTuples of arrays
    parts : each NamedTuple in it that becomes a structure as well
    """
    caller = sys._getframe(1)
    module = {"__module__": caller.f_globals["__name__"]}
    names: dict[type, str] = {}
    scope: dict[str, Any] = {"borrowed": borrowed}
    for part in (*parts, shape):
        name = names[part] = f"_{part.__name__}Proxy"
        fields: Any = structref.register(type(f"_{part.__name__}Fields", (Fields,), module))
        proxy = scope[name] = type(name, (Proxy,), module)
        structref.define_boxing(fields, proxy)
        structref.define_constructor(proxy, fields, list(get_type_hints(part)))
        caller.f_globals.update({name: proxy, fields.__name__: fields})
    source = f"def share(arrays):\n    lent = borrowed(arrays)\n    return {_made(shape, 'lent', names)}\n"
    # The name of an existing file, because it selects the cache of the compiled code.
    exec(compile(source, caller.f_code.co_filename, "exec"), scope)
    made: Any = scope["share"]
    made.__module__ = caller.f_globals["__name__"]
    made.__qualname__ = f"share_{shape.__name__}"
    return entry(made)


def _made(shape: type, value: str, names: Mapping[type, str]) -> str:
    kinds = get_type_hints(shape)
    fields = (
        _made(kind, f"{value}.{name}", names) if kind in names else f"{value}.{name}" for name, kind in kinds.items()
    )
    return f"{names[shape]}({', '.join(fields)})"
