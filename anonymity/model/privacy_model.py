"""Extension point for privacy models: one record used by configuration, algorithms and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from crenel.anonymity.model.errors import FieldError
from crenel.anonymity.model.fields import Real
from crenel.anonymity.model.reference import Reference

Parameter: TypeAlias = float | tuple[float, ...]
"""The parameter of a privacy model: one number, or those of ``PrivacyModel.fields`` in their order."""

NO_TERM = "no term of its own"
"""In place of the name of a mechanism in a standard that has none."""


@dataclass(frozen=True)
class PrivacyModel:
    """A condition on the values of a sensitive column, in addition to k.

    Attributes
    ----------
    name : the field of ``privacy``, and of ``privacy.sensitive.NAME``, that sets its parameter
    parameter : description of the valid parameters, such as ``a number above 0 and at most 1``
    allowed : returns whether a parameter is valid for a given k
    lacking : returns the shortfall of a set of persons: 0 where it satisfies the model, otherwise above 0. The function
        is compiled from its source and takes (persons, counts, parameters). ``persons``: distinct subjects of the set.
        ``counts`` (values,) int64: persons with each value in descending order, each person counted for one value.
        ``parameters`` (numbers,) float64. A model that compares takes (persons, counts, parameters, rows, reference),
        and each person counts for all of the person's values. ``rows`` (values,) int64: position of each value in the
        reference, ascending, -1 for absent values. ``reference`` (numbers,) float64: the result of ``table``
    reason : reason for suppressing a tuple for which no satisfying set exists; for a model of one column, a colon and
        the column follow
    least_values : returns the minimum number of values in a satisfying set for a parameter; algorithms first collect
        this many
    least_removed : returns a lower bound on the persons outside any satisfying subset of a violating set, given arrays
        of the persons and shortfalls of sets, and the parameter. OLA searches less with it. Only for a model that the
        union of two satisfying sets satisfies, where no person is in both or has several values; None: unknown
    fields : descriptions of the numbers in the parameter, by name; empty where it is one number
    compares : whether the model depends on the values themselves, compared with ``Sensitive.reference``
    table : returns the numbers that the model takes from a reference; by default the share of each value
    example : a parameter in the form of settings that is valid for every k from 2 on; the models of Crenel have one
    statement, not_covered : what holds for every release, and what an attacker may learn all the same, in the words of
        ``docs/privacy/guarantees.md``
    terms : names of the model in ISO/IEC 20889:2018 and in NIST SP 800-188 (2023), for ``crenel report``
    """

    name: str
    parameter: str
    allowed: Callable[[Any, int], bool]
    lacking: Callable[..., float]
    reason: str
    least_values: Callable[[Any], int] = lambda parameter: 1
    least_removed: Callable[[NDArray[np.int64], NDArray[np.float64], Any], NDArray[np.float64]] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    compares: bool = False
    table: Callable[[Reference], tuple[float, ...]] = lambda reference: reference.shares
    example: Any = None
    statement: str = ""
    not_covered: str = ""
    terms: tuple[str, str] = (NO_TERM, NO_TERM)

    def named(self, parameter: Parameter) -> dict[str, float]:
        """Return the numbers of a parameter by names that begin with the model's name."""
        if not isinstance(parameter, tuple):
            return {self.name: parameter}
        return {f"{self.name}_{name}": number for name, number in zip(self.fields, parameter, strict=True)}

    def text(self, parameter: Parameter) -> str:
        """Return a parameter in words."""
        if not isinstance(parameter, tuple):
            return f"{parameter:g}"
        return ", ".join(f"{name} {number:g}" for name, number in zip(self.fields, parameter, strict=True))

    def validated(self, value: Any) -> Any:
        """Return a parameter as settings hold it: a number, or numbers by the names of ``fields``.

        Raises
        ------
        FieldError
            The value is not of this form.
        """
        if not self.fields:
            return _number(self.name, value, self.parameter)
        if not isinstance(value, Mapping):
            raise FieldError(self.name, f"is not a mapping; {self.parameter}")
        if unknown := value.keys() - self.fields.keys():
            raise FieldError(f"{self.name}.{min(unknown)}", f"is unknown; known here: {', '.join(self.fields)}")
        for name, words in self.fields.items():
            if name not in value:
                raise FieldError(f"{self.name}.{name}", f"is missing; {words}")
        return {name: _number(f"{self.name}.{name}", value[name], words) for name, words in self.fields.items()}

    def as_numbers(self, parameter: Any) -> Parameter:
        """Return a parameter as the functions of the model take it, from its form in settings."""
        return tuple(parameter[name] for name in self.fields) if self.fields else float(parameter)

    def __reduce__(self) -> tuple[Callable[[str, str], PrivacyModel], tuple[str, str]]:
        # Another process imports the module and looks the model up by name.
        return _found, (self.lacking.__module__, self.name)


ConfiguredModels: TypeAlias = tuple[tuple[PrivacyModel, Parameter], ...]
"""Privacy models beside k and l, each with its parameter."""


_REAL = TypeAdapter(Real)


def _number(field: str, value: Any, words: str) -> float:
    try:
        number: float = _REAL.validate_python(value)
    except ValidationError:
        raise FieldError(field, f"is not a number; {words}") from None
    return number


_KNOWN: dict[str, PrivacyModel] = {}


def add_privacy_model(model: PrivacyModel) -> PrivacyModel:
    """Register a privacy model under its name, as ``extensions`` of a configuration do.

    Registering the same model twice has no effect; another model of the same name raises ``ValueError``.
    """
    if _KNOWN.setdefault(model.name, model).lacking is not model.lacking:
        raise ValueError(f"privacy.{model.name}: there are two privacy models of this name")
    return model


def _found(module: str, name: str) -> PrivacyModel:
    import_module(module)
    return _KNOWN[name]


def known_privacy_models() -> dict[str, PrivacyModel]:
    """Return all registered privacy models beside k and l, by name, in the order in which they are checked."""
    builtin = import_module("crenel.anonymity.builtin")
    return {model.name: model for model in builtin.PRIVACY_MODELS} | _KNOWN
