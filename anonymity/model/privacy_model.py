"""A promise about the sensitive values of a release: one record, which configuration, algorithms and outputs ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

from crenel.anonymity.model.reference import Reference

Parameter: TypeAlias = float | tuple[float, ...]
"""What was promised: one number, or those of ``PrivacyModel.fields`` in their order."""


@dataclass(frozen=True)
class PrivacyModel:
    """What is asked of the values of each sensitive column, beside k.

    Attributes
    ----------
    name : the field of ``privacy``, and of ``privacy.sensitive.NAME``, that sets its parameter
    parameter : what the parameter may be, in words, such as ``a number above 0 and at most 1``
    allowed : whether a parameter is allowed, for a given k
    lacking : by how much a set of persons falls short: 0 where it satisfies, above 0 otherwise. A function of
        (persons, counts, parameters), compiled from its source: ``persons`` are the distinct subjects of the set;
        ``counts`` (values,) int64 how many persons have each value, the commonest first, of whom each counts for one
        value; ``parameters`` (numbers,) float64 what was promised. Of a promise that compares: of (persons, counts,
        parameters, rows, reference), where each person counts for every value they have; ``rows`` (values,) int64 where
        each value stands in the reference, rising, -1 (and several times) for those that it has not got; ``reference``
        (numbers,) float64 what ``table`` makes of it
    reason : why a tuple is suppressed that no set could be found for; where the promise is of one column, a colon and
        the column follow
    least_values : how many values each satisfying set has at least, for a parameter; algorithms begin with as many
    fields : what the parameter is made of, each by its name and what it may be; empty: it is one number
    compares : whether it looks at which values there are, and compares them with the column's ``Sensitive.reference``
    table : the numbers that it takes of a reference; the share of each value, if nothing else is given
    """

    name: str
    parameter: str
    allowed: Callable[[Any, int], bool]
    lacking: Callable[..., float]
    reason: str
    least_values: Callable[[Any], int] = lambda parameter: 1
    fields: Mapping[str, str] = field(default_factory=dict)
    compares: bool = False
    table: Callable[[Reference], tuple[float, ...]] = lambda reference: reference.shares

    def named(self, parameter: Parameter) -> dict[str, float]:
        """The numbers of a parameter, each by a name that begins with the promise's."""
        if not isinstance(parameter, tuple):
            return {self.name: parameter}
        return {f"{self.name}_{name}": number for name, number in zip(self.fields, parameter, strict=True)}

    def __reduce__(self) -> tuple[Callable[[str, str], PrivacyModel], tuple[str, str]]:
        # In another process it is the one of that name, once its module is imported.
        return _found, (self.lacking.__module__, self.name)


Asked: TypeAlias = tuple[tuple[PrivacyModel, Parameter], ...]
"""Promises beside k and l, with what was promised."""


@dataclass(frozen=True)
class Sensitive:
    """What is promised of one sensitive column, in place of what is promised of all by the same name.

    Attributes
    ----------
    name : the column
    l : l-diversity, 1 to k; None: that of all columns
    further : promises beside it
    reference : the distribution that promises compare the column with; None: none of them does
    """

    name: str
    l: int | None = None  # noqa: E741 - the field's own name for it
    further: Asked = ()
    reference: Reference | None = None


_KNOWN: dict[str, PrivacyModel] = {}


def add_privacy_model(promise: PrivacyModel) -> PrivacyModel:
    """Make a promise known by its name, as ``extensions`` of a configuration do; the same one twice is one."""
    if _KNOWN.setdefault(promise.name, promise).lacking is not promise.lacking:
        raise ValueError(f"privacy.{promise.name}: there are two promises of this name")
    return promise


def _found(module: str, name: str) -> PrivacyModel:
    import_module(module)
    return _KNOWN[name]


def known_privacy_models() -> dict[str, PrivacyModel]:
    """All promises beside k and l, by name."""
    return dict(_KNOWN)
