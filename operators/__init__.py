"""Flink functions that translate between Flink and the core, without any anonymization logic."""

import builtins


def _import_numba() -> None:
    """Import numba with Python's own ``print`` in place.

    PyFlink's worker processes replace ``print`` by a method of theirs. Numba looks ``print`` up by its name, and could
    not be imported after that.
    """
    replaced = builtins.print
    builtins.print = getattr(getattr(replaced, "__self__", None), "_print", replaced)
    try:
        import numba  # noqa: F401
    finally:
        builtins.print = replaced


_import_numba()
