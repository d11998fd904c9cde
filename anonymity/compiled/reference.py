"""Structures that lend their arrays to compiled code, which then counts no references to them."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.experimental import structref
from numba.extending import intrinsic

from anonymity.compiled.jit import inner
from anonymity.space.domain import Boxes, Domain


class Fields(types.StructRef):
    """The numba type of a structure whose fields have any types."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(typ)) for name, typ in fields)


def _borrowed(_context: Any, array: Any) -> Any:
    """The same array without an owner, so that reading it from a structure counts no reference."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        borrowed = context.make_array(signature.args[0])(context, builder, args[0])
        borrowed.meminfo = cgutils.get_null_value(borrowed.meminfo.type)
        return borrowed._getvalue()

    return array(array), codegen


borrow: Any = intrinsic(_borrowed)


@inner
def borrow_boxes(boxes: Boxes) -> Boxes:
    """Boxes of borrowed arrays."""
    return Boxes(borrow(boxes.lower), borrow(boxes.upper), borrow(boxes.node))


@inner
def borrow_domain(domain: Domain) -> Domain:
    """A domain of borrowed arrays."""
    return Domain(
        borrow(domain.lower),
        borrow(domain.upper),
        borrow(domain.declared),
        borrow(domain.scale),
        borrow(domain.parent),
        borrow(domain.first),
        borrow(domain.last),
        borrow(domain.loss),
        borrow(domain.root),
    )


def define(proxy: type, fields: type, names: tuple[str, ...]) -> None:
    """Let a structure be made by, and returned from, compiled code."""
    structref.define_boxing(fields, proxy)
    structref.define_constructor(proxy, fields, list(names))
