"""Quasi-identifiers, and numeric attributes published with noise.

All classes are frozen, and their constructors validate all values. ``Policy`` gives each attribute its name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import field, replace
from decimal import Decimal
from math import floor, gcd, isfinite
from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, Field

from crenel.anonymity.model.builders.builder import Builder
from crenel.anonymity.model.errors import FieldError
from crenel.anonymity.model.fields import (
    AboveZero,
    Instant,
    Milliseconds,
    Natural,
    Position,
    Real,
    Span,
    about,
    setting,
)
from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError, LazyLabels, from_paths
from crenel.anonymity.model.hierarchy_field import HIERARCHIES, HierarchyField

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


def _increasing(domain: tuple[float, float]) -> tuple[float, float]:
    if domain[0] > domain[1]:
        raise ValueError("the lower bound is above the upper one")
    if isinstance(domain[0], Instant) != isinstance(domain[1], Instant):
        raise ValueError("one bound is a day or a time, and the other a number; give two of one kind")
    return domain


A = TypeVar("A", bound="Attribute")


@setting
class Attribute:
    """Base class of the columns of a policy that have settings of their own.

    Attributes
    ----------
    name : the column; empty until the attribute is part of a policy, which has it as a key
    role : field of the policy that names it
    """

    name: Annotated[str, Field(exclude=True)] = field(default="", kw_only=True, repr=False)

    role: ClassVar[str] = ""

    def named(self: A, name: str) -> A:
        """Return the attribute of a column."""
        return self if self.name == name else replace(self, name=name)

    @property
    def place(self) -> str:
        """Configuration path of this attribute."""
        return f"policy.{self.role}.{self.name}"


class Number(Attribute):
    """Base class of numeric attributes.

    Attributes
    ----------
    domain : lowest and highest valid value; None: every finite value
    step : grid on which noise is drawn; None: none is declared
    """

    domain: tuple[float, float] | None
    step: float | None

    @property
    def is_temporal(self) -> bool:
        """Whether days or times were given, so that the column must be of these; they are not noised."""
        return False

    def _require_grid(self) -> None:
        """Raise ``FieldError`` where domain and step do not go together."""
        width = 0.0 if self.domain is None else self.domain[1] - self.domain[0]
        if not isfinite(width):
            raise FieldError("domain", "must be two finite numbers, the lower one first")
        if 0 < width < sys.float_info.min:  # losses are divided by the width
            raise FieldError(
                "domain",
                f"is narrower than {sys.float_info.min:.4g}, which losses cannot be measured by; give the column "
                "another unit, or two ends that are the same",
            )
        if self.step is not None and (problem := _wrong_step(self.step, self.domain)):
            raise FieldError("step", problem)


def by_name(attributes: Iterable[A]) -> dict[str, A]:
    """Return attributes by the names that they have."""
    return {attribute.name: attribute for attribute in attributes}


@setting
class Numeric(Number):
    """A numeric quasi-identifier, published as an interval or as one number per class.

    Attributes
    ----------
    domain : lowest and highest valid value, both included; a value outside is rejected. Of a day or a timestamp:
        days or times, as objects or ISO 8601. Its width is at least 2.2e-308, unless both ends are equal. None: every
        finite value, and losses are relative to the range observed so far
    step : grid on which noise is drawn, above 0, in the unit of the column; the width of the domain holds one to 2^40
        steps. None: 1 for whole numbers; with noise, other numbers need a step
    ends : grid of the ends of published intervals, above 0, in the unit of the column; of a timestamp, a duration such
        as ``"1h"``. With ``5`` they are multiples of 5, rounded outwards, or an end of the domain, or, without a
        domain, the minimum or maximum of the column's type. A whole number if
        the type of the column is one; at most the width of the domain; not with representatives (``publish``,
        ``suhdsa.output``). None: no grid
    publish : published form of a class: its ``"interval"``, or a representative, its ``"mean"`` or ``"median"``. A
        representative belongs to one class, so it excludes reuse, a lasting guarantee and ``suppression: generalize``
    missing : ``"reject"`` records without a number; or keep the absence as a ``"value"``, which needs a domain. Whether
        the number is missing is then a quasi-identifier of its own, published as ``NAME_missing``: ``no``, ``yes``, or
        ``maybe`` for a class with records of both kinds
    """

    domain: Annotated[
        Annotated[tuple[Position, Position], AfterValidator(_increasing)] | None,
        about("[lowest, highest], two finite numbers, days or times; without it the observed range"),
    ] = None
    step: Annotated[
        Span | None,
        about("a number above 0, or a duration such as 1h: the grid on which noise is drawn, in the column's unit"),
    ] = None
    ends: Annotated[
        Span | None,
        about("a number above 0, such as 5, or a duration such as 1h: ends of published intervals are multiples of it"),
    ] = None
    publish: Annotated[Literal["interval", "mean", "median"], about("'interval', 'mean' or 'median'")] = "interval"
    missing: Annotated[
        Literal["reject", "value"],
        about("with a 'domain', 'reject' or 'value': what becomes of records without a number"),
    ] = "reject"

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

    def __post_init__(self) -> None:
        self._require_grid()
        if self.ends is not None and (problem := _wrong_ends(self.ends, self.domain)):
            raise FieldError("ends", problem)
        if self.ends is not None and self.has_representative:
            raise FieldError("ends", NO_ENDS)
        if self.missing == "value" and self.domain is None:
            raise FieldError(
                "domain",
                "is missing; 'missing: value' needs one, as losses between numbers and missing ones are relative to it",
            )


@setting
class Noised(Number):
    """A numeric attribute that is published with noise and ignored by clustering ((k, epsilon)-anonymity, Section IV).

    In the paper it is an epsilon-quasi.

    Attributes
    ----------
    domain : lowest and highest value, which differ; a value outside is rejected, and noise stays within
    step : grid on which noise is drawn, above 0, in the unit of the column. None: 1 for whole numbers; other numbers
        need a step
    """

    domain: Annotated[
        Annotated[tuple[Real, Real], AfterValidator(_increasing)],
        about("[lowest, highest], two finite numbers: noise stays within"),
    ]
    step: Annotated[
        AboveZero | None,
        about("a number above 0: the grid that noise is drawn on, in the column's unit; 1 for whole numbers"),
    ] = None

    role: ClassVar[str] = "noised"
    missing: ClassVar[str] = "reject"

    def __post_init__(self) -> None:
        if self.domain[0] == self.domain[1]:
            raise FieldError("domain", "holds one value, which no noise can hide; give two different ends")
        self._require_grid()


def _wrong_step(step: float, domain: tuple[float, float] | None) -> str | None:
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
    if max(decimal_fraction(ends)) > EXACT:
        return "has more digits than float64 holds exactly; give a number such as 5 or 0.25, of 15 digits at most"
    if domain is None:
        return None
    if domain[1] - domain[0] < ends * (1 - 1e-9):
        return "is wider than the domain; every interval would be all of it"
    if ends * LARGEST_POSITION < max(abs(domain[0]), abs(domain[1])):
        return "is too small; the ends of the domain may be 2^52 times as far from 0 at most"
    return None


class WithHierarchy(Attribute):
    """Base class of attributes whose values are leaves of a hierarchy."""

    hierarchy: HierarchyField

    @property
    def builder(self) -> Builder | None:
        """Builder of the hierarchy, which finds the leaf of each value; None: a value is the label of its leaf."""
        return self.hierarchy.source if isinstance(self.hierarchy.source, Builder) else None


@setting
class Categorical(WithHierarchy):
    """A categorical quasi-identifier, published as a label of its hierarchy or as values of the class.

    Attributes
    ----------
    hierarchy : path of a hierarchy file, a builder, a mapping from each value of the column, or its text, to its
        ancestors (the root last), or a ``Hierarchy``, which each of them becomes
    publish : published form of a class: the lowest common ``"ancestor"`` of its values, the ``"set"`` of these values,
        or a representative, their ``"mode"``. A set lists at most 100 values; a class with more, and a fully
        generalized row, has the ancestor as its only entry. A set excludes reuse and a lasting guarantee, and a
        representative ``suppression: generalize`` as well

    Examples
    --------
    >>> area = Categorical({"Oslo": ["Norway", "*"], "Bergen": ["Norway", "*"], "Lund": ["Sweden", "*"]})
    """

    hierarchy: Annotated[HierarchyField, about(HIERARCHIES)]
    publish: Annotated[Literal["ancestor", "set", "mode"], about("'ancestor', 'set' or 'mode'")] = "ancestor"

    role: ClassVar[str] = "quasi_identifiers"

    @property
    def has_representative(self) -> bool:
        """Whether one value is published for each class, and neither a label above its values nor all of them."""
        return self.publish == "mode"

    def __post_init__(self) -> None:
        if self.publish != "set" or not isinstance(self.hierarchy, Hierarchy):
            return
        # The labels of a large hierarchy are built, and no builder makes such a label.
        labels = () if isinstance(self.hierarchy.labels, LazyLabels) else self.hierarchy.labels
        if any(not label or SEPARATOR in label for label in labels):
            raise FieldError(
                "publish",
                f"a set in text is separated by {SEPARATOR!r}, and a label of the hierarchy contains it or is empty; "
                "rename the label, or publish the ancestor",
            )


NUMBER, NO_NUMBER, MAYBE = "no", "yes", "maybe"
"""Labels of ``Presence``: the number is not missing, it is missing, or the class has members of both kinds."""

_PRESENCE = from_paths([(NUMBER, MAYBE), (NO_NUMBER, MAYBE)])

ABSENT = _PRESENCE.labels.index(NO_NUMBER)
"""Leaf of ``Presence`` for a missing number."""


@setting
class Presence(Categorical):
    """Whether a number is missing: a quasi-identifier of its own beside the number, published as ``NAME_missing``.

    A class in which all numbers are missing has no interval. The interval of a class with members of both kinds holds
    the numbers of all members that have one.

    Attributes
    ----------
    number : name of the numeric quasi-identifier
    """

    number: str = field(default="", kw_only=True)

    @classmethod
    def of(cls, number: Numeric) -> Presence:
        """Return the attribute that goes with a number."""
        return cls(_PRESENCE, name=f"{number.name}_missing", number=number.name)


QuasiIdentifier: TypeAlias = Numeric | Categorical


@setting
class Generalized(WithHierarchy):
    """A sensitive column that is published as the label of its value at one level of a hierarchy.

    Labels and level are declared, so the published form of a value depends on no other record. Privacy models count
    published labels.

    Attributes
    ----------
    hierarchy : all valid values, with the labels above them, as of a quasi-identifier; a record with another value is
        rejected. Levels must be defined: each value has as many labels above it
    level : level of the published label: 0 for the values of the hierarchy, 1 for the labels above them, and so on;
        below that of the root

    Examples
    --------
    >>> from crenel import Numbers
    >>> income = Generalized(Numbers(domain=(0, 500_000), levels=[10_000], open=True))  # such as 20000-29999
    """

    hierarchy: Annotated[HierarchyField, about(HIERARCHIES)]
    level: Annotated[Natural, about("a whole number from 0 on, below the level of the root")] = 0

    role: ClassVar[str] = "generalized"

    @property
    def labels(self) -> tuple[str, ...]:
        """(leaves,) published label of each leaf."""
        return tuple(self.hierarchy.labels_of(self.hierarchy.level_nodes()[self.level]))

    def __post_init__(self) -> None:
        if not isinstance(self.hierarchy, Hierarchy):
            return
        try:
            top = int(self.hierarchy.levels()[self.hierarchy.root])
        except HierarchyError as error:
            raise FieldError("hierarchy", str(error)) from None
        if not top:
            raise FieldError("hierarchy", f"has no root above its value; write '{self.hierarchy.labels[0]};*'")
        if self.level >= top:
            raise FieldError("level", f"must be from 0 to {top - 1}, below the root of the hierarchy, not {self.level}")
