"""Quasi-identifiers, and numeric attributes published with noise.

All classes are frozen, and their constructors validate all values.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from math import floor, gcd, inf, isfinite
from typing import ClassVar, Literal, TypeAlias

from crenel.anonymity.model.builders.builder import Builder
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError, LazyLabels, from_paths

EXACT = 2**53
"""Limit up to which float64 represents every whole number."""


def decimal_fraction(step: float) -> tuple[int, int]:
    """Return a positive number's shortest decimal as a fraction (parts, whole), ``whole`` a power of ten.

    0.1 is (1, 10), so that three steps of it, 3 * 1 / 10, are 0.3; 3 * 0.1 is not. Either number may exceed ``EXACT``,
    where a step is very large or small.
    """
    fraction = Decimal(repr(float(step))).as_tuple()
    exponent = int(fraction.exponent)
    parts = int("".join(map(str, fraction.digits))) * 10 ** max(exponent, 0)
    return parts, 10 ** max(-exponent, 0)


def in_lowest_terms(parts: int, whole: int) -> tuple[int, int]:
    """Return the fraction in lowest terms, whose multiples stay exact for longest."""
    divisor = gcd(parts, whole)
    return parts // divisor, whole // divisor


NO_ENDS = "a representative is one number, which has no ends; remove one of the two"
"""Problem of a grid of ends together with a representative."""

MOST_STEPS = 2**40
"""Maximum number of grid steps in a numeric quasi-identifier's domain, where noise is drawn."""

LARGEST_POSITION = 2**52
"""Maximum distance of a grid step from 0, and maximum scale of noise, in steps.

Beyond it, float64 cannot distinguish two steps.
"""


SEPARATOR = ";"
"""Separator of the values of a set in text; no label of a hierarchy with ``publish: set`` contains it."""


class Milliseconds(float):
    """Milliseconds of a duration in a policy, in which only days and times are measured."""

    @property
    def text(self) -> str:
        """The duration as a policy has it."""
        return f"{self:.17g} ms"


class Instant(Milliseconds):
    """Epoch milliseconds of a day or a time in a policy."""

    @property
    def text(self) -> str:
        """The time as a policy has it."""
        return str(datetime(1970, 1, 1) + timedelta(milliseconds=self))


@dataclass(frozen=True)
class Numeric:
    """A numeric quasi-identifier, published as an interval or as one number per class.

    Attributes
    ----------
    domain : [minimum, maximum] in the column's unit, both included; None: losses are relative to the range observed so
        far, and every finite value is admitted
    step : grid on which noise is drawn, in the column's unit, above 0; None: not configured (the plan sets 1 for an
        integer column). A domain holds from 1 to 2^40 steps; its ends need not lie on the grid
    ends : grid of published intervals, in the column's unit, above 0: interval ends are multiples of it, rounded
        outwards, or ends of the domain; None: they are the minimum and maximum of the class. A domain holds at least
        one such step, and its ends are at most 2^52 of them from 0
    publish : published form: the ``interval``, or a representative, the ``mean`` or ``median`` of the class
    missing : ``reject`` records without a number, or keep the absence as a ``value`` of its own (``Presence``), which
        needs a domain
    """

    name: str
    domain: tuple[float, float] | None = None
    step: float | None = None
    ends: float | None = None
    publish: Literal["interval", "mean", "median"] = "interval"
    missing: Literal["reject", "value"] = "reject"

    role: ClassVar[str] = "quasi_identifiers"

    @property
    def middle(self) -> float:
        """The position that a missing number has among the others: the middle of the domain, whole if its ends are.

        No position is nearer to all numbers. It is never published: ``Presence`` distinguishes a missing number.
        """
        lowest, highest = self.domain or (0.0, 0.0)
        middle = lowest / 2 + highest / 2
        return float(floor(middle)) if float(lowest).is_integer() and float(highest).is_integer() else middle

    @property
    def is_temporal(self) -> bool:
        """Whether the domain or a grid was given as days, times or durations, so that the column must be of these."""
        return any(isinstance(of, Milliseconds) for of in (*(self.domain or ()), self.step, self.ends))

    @property
    def has_representative(self) -> bool:
        """Whether one number is published for each class, and not an interval."""
        return self.publish != "interval"

    @property
    def place(self) -> str:
        """Configuration path of this attribute."""
        return f"policy.{self.role}.{self.name}"

    def __post_init__(self) -> None:
        if self.domain is not None and not (
            self.domain[0] <= self.domain[1] and isfinite(self.domain[1] - self.domain[0])
        ):
            raise PolicyError(f"{self.place}.domain: must be two finite numbers, the lower one first")
        # Losses are divided by the width of the domain.
        if self.domain is not None and 0 < self.domain[1] - self.domain[0] < sys.float_info.min:
            raise PolicyError(
                f"{self.place}.domain: is narrower than {sys.float_info.min:.4g}, which losses "
                "cannot be measured by; give the column another unit, or two ends that are the same"
            )
        if self.step is not None and (problem := _wrong_step(self.step, self.domain)):
            raise PolicyError(f"{self.place}.step: {problem}")
        if self.ends is not None and (problem := _wrong_ends(self.ends, self.domain)):
            raise PolicyError(f"{self.place}.ends: {problem}")
        if self.ends is not None and self.has_representative:
            raise PolicyError(f"{self.place}.ends: {NO_ENDS}")
        if self.missing == "value" and self.domain is None:
            raise PolicyError(
                f"{self.place}.domain: is missing; 'missing: value' needs one, as losses between numbers and missing "
                "ones are relative to it"
            )


@dataclass(frozen=True)
class Noised(Numeric):
    """A numeric attribute that is published with noise and ignored by clustering.

    In the paper it is an epsilon-quasi ((k, epsilon)-anonymity, Section IV).

    Attributes
    ----------
    domain : as for ``Numeric``, but required and wider than one value
    step : as for ``Numeric``; published values lie on its grid
    """

    role: ClassVar[str] = "noised"

    def __post_init__(self) -> None:
        if self.domain is None:
            raise PolicyError(f"{self.place}.domain: is missing; noise stays within [lowest, highest]")
        super().__post_init__()
        if self.ends is not None:
            raise PolicyError(f"{self.place}.ends: what is noised is published as one number, not two ends; remove it")
        if self.domain[0] == self.domain[1]:
            raise PolicyError(f"{self.place}.domain: holds one value, which no noise can hide; give two different ends")
        if self.missing == "value":
            raise PolicyError(f"{self.place}.missing: noise needs a number to be added to; remove it")


def _wrong_step(step: float, domain: tuple[float, float] | None) -> str | None:
    if not (0 < step < inf):
        return "must be a finite number above 0"
    if domain is None:
        return None
    width = domain[1] - domain[0]
    # Ends such as 0.2 and 0.3 are a little less than a step of 0.1 apart.
    if width < step * (1 - 1e-9):
        return "is wider than the domain; the domain must hold at least one step"
    # Divided the other way round, a tiny step would overflow.
    if step * MOST_STEPS < width:
        return "is too small; the domain may hold 2^40 steps at most"
    if step * LARGEST_POSITION < max(abs(domain[0]), abs(domain[1])):
        return "is too small; the ends of the domain may be 2^52 steps from 0 at most"
    return None


def _wrong_ends(ends: float, domain: tuple[float, float] | None) -> str | None:
    if not (0 < ends < inf):
        return "must be a finite number above 0"
    if max(decimal_fraction(ends)) > EXACT:
        return "has more digits than are told apart here; give a number such as 5 or 0.25, of 15 digits at most"
    if domain is None:
        return None
    if domain[1] - domain[0] < ends * (1 - 1e-9):
        return "is wider than the domain; every interval would be all of it"
    if ends * LARGEST_POSITION < max(abs(domain[0]), abs(domain[1])):
        return "is too small; the ends of the domain may be 2^52 times as far from 0 at most"
    return None


@dataclass(frozen=True)
class Categorical:
    """A categorical quasi-identifier, published as the lowest common ancestor of its values or in another form.

    Attributes
    ----------
    hierarchy : tree of its values
    builder : builder of the hierarchy, which finds the leaf of each value; None: a value is the label of its leaf
    publish : published form: the common ``ancestor`` of the values of the class, the ``set`` of the values themselves,
        or a representative, their ``mode`` (``crenel.anonymity.buffer.published_forms``)
    """

    name: str
    hierarchy: Hierarchy
    builder: Builder | None = None
    publish: Literal["ancestor", "set", "mode"] = "ancestor"

    @property
    def place(self) -> str:
        """Configuration path of this attribute."""
        return f"policy.quasi_identifiers.{self.name}"

    @property
    def has_representative(self) -> bool:
        """Whether one value is published for each class, and neither a label above its values nor all of them."""
        return self.publish == "mode"

    def __post_init__(self) -> None:
        # The labels of a large hierarchy are built, and no builder makes such a label.
        labels = () if isinstance(self.hierarchy.labels, LazyLabels) else self.hierarchy.labels
        if self.publish == "set" and any(not label or SEPARATOR in label for label in labels):
            raise PolicyError(
                f"{self.place}.publish: a set in text is separated by {SEPARATOR!r}, and a label of the hierarchy "
                "contains it or is empty; rename the label, or publish the ancestor"
            )


NUMBER, NO_NUMBER, MAYBE = "no", "yes", "maybe"
"""Labels of ``Presence``: the number is not missing, it is missing, or the class has members of both kinds."""

_PRESENCE = from_paths([(NUMBER, MAYBE), (NO_NUMBER, MAYBE)])

ABSENT = _PRESENCE.labels.index(NO_NUMBER)
"""Leaf of ``Presence`` for a missing number."""


@dataclass(frozen=True)
class Presence(Categorical):
    """Whether a number is missing: a quasi-identifier of its own beside the number, published as ``NAME_missing``.

    A class in which all numbers are missing has no interval. The interval of a class with members of both kinds holds
    the numbers of all members that have one.

    Attributes
    ----------
    number : name of the numeric quasi-identifier
    """

    number: str = ""

    @classmethod
    def of(cls, number: Numeric) -> Presence:
        """Return the attribute that goes with a number."""
        return cls(f"{number.name}_missing", _PRESENCE, number=number.name)


QuasiIdentifier: TypeAlias = Numeric | Categorical


@dataclass(frozen=True)
class Generalized:
    """A sensitive attribute that is published as the label of its value at one level of a hierarchy.

    Labels and level are declared, so the published form of a value depends on no other record. Privacy models count
    published labels.

    Attributes
    ----------
    hierarchy : tree of all valid values; a record with another value is rejected
    builder : as of ``Categorical``
    level : published level, 0 for the leaves, and below that of the root, at which all values have one label
    """

    name: str
    hierarchy: Hierarchy
    builder: Builder | None = None
    level: int = 0

    @property
    def place(self) -> str:
        """Configuration path of this attribute."""
        return f"policy.generalized.{self.name}"

    @property
    def labels(self) -> tuple[str, ...]:
        """(leaves,) published label of each leaf."""
        return tuple(self.hierarchy.labels_of(self.hierarchy.level_nodes()[self.level]))

    def __post_init__(self) -> None:
        try:
            top = int(self.hierarchy.levels()[self.hierarchy.root])
        except HierarchyError as error:
            raise PolicyError(f"{self.place}.hierarchy: {error}") from None
        if not 0 <= self.level < top:
            raise PolicyError(
                f"{self.place}.level: must be from 0 to {top - 1}, below the root of the hierarchy, not {self.level}"
                if top
                else f"{self.place}.hierarchy: has no root above its value; write '{self.hierarchy.labels[0]};*'"
            )
