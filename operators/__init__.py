"""Flink's functions: they translate between Flink and the core, and hold no logic of anonymity."""

import builtins


def _import_numba() -> None:
    """Import numba with Python's own ``print`` in place.

    PyFlink's worker processes put a method of theirs there, and numba, which looks ``print`` up by its name, could not
    be imported after that.
    """
    replaced = builtins.print
    builtins.print = getattr(getattr(replaced, "__self__", None), "_print", replaced)
    try:
        import numba  # noqa: F401
    finally:
        builtins.print = replaced


_import_numba()
