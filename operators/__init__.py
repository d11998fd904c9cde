"""Flink functions that translate between Flink and the core, without any anonymization logic."""

import builtins
import types


def _import_numba(replaced: types.MethodType) -> None:
    """Import numba with Python's own ``print`` in place, and put PyFlink's back.

    Numba looks ``print`` up by its name, and could not be imported with another one.
    """
    builtins.print = replaced.__self__._print  # type: ignore[attr-defined]
    try:
        import numba  # noqa: F401
    finally:
        builtins.print = replaced


# Only PyFlink's worker processes replace ``print``, by a method. A worker imports this package before it unpickles any
# function, and so before numba; it changes no other process.
if isinstance(print, types.MethodType) and hasattr(print.__self__, "_print"):
    _import_numba(print)
