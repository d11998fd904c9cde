"""A promise about the sensitive values of a release: one record, which configuration, algorithms and outputs ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Promise:
    """What is asked of the values of each sensitive column, beside k.

    Attributes
    ----------
    name : the field of ``privacy`` that sets its parameter
    parameter : what the parameter may be, in words, such as ``a number above 0 and at most 1``
    allowed : whether a parameter is allowed, for a given k
    lacking : by how much a set of persons falls short: 0 where it satisfies, above 0 otherwise. A function of
        (persons, held, counts, parameter), compiled from its source: ``persons`` are the distinct subjects of the set;
        ``counts`` (values,) int64 how many persons have each value, the commonest first; ``held`` their sum, which is
        above ``persons`` where somebody has several values; ``parameter`` the one that was promised. It must be 0 for
        a set of which a part satisfies, or tuples may be suppressed that could have been released
    reason : why a tuple is suppressed that waits where no set could satisfy
    least_values : how many values each satisfying set has at least, for a parameter; algorithms begin with as many
    """

    name: str
    parameter: str
    allowed: Callable[[float, int], bool]
    lacking: Callable[[int, int, Any, float], float]
    reason: str
    least_values: Callable[[float], int] = lambda parameter: 1

    def __reduce__(self) -> tuple[Callable[[str, str], Promise], tuple[str, str]]:
        # In another process it is the one of that name, once its module is imported.
        return _found, (self.lacking.__module__, self.name)


_KNOWN: dict[str, Promise] = {}


def add_promise(promise: Promise) -> Promise:
    """Make a promise known by its name, as ``extensions`` of a configuration do; the same one twice is one."""
    if _KNOWN.setdefault(promise.name, promise).lacking is not promise.lacking:
        raise ValueError(f"privacy.{promise.name}: there are two promises of this name")
    return promise


def _found(module: str, name: str) -> Promise:
    import_module(module)
    return _KNOWN[name]


def known_promises() -> dict[str, Promise]:
    """All promises beside k and l, by name."""
    return dict(_KNOWN)
