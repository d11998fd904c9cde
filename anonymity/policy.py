"""What a stream may become: the roles of its columns, and what every release promises.

All of these are frozen and hold only values that were validated by their own constructors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isclose, isfinite
from typing import ClassVar, Literal, TypeAlias

from anonymity.builders.builder import Builder
from anonymity.decimals import EXACT, decimal_fraction
from anonymity.hierarchy import Hierarchy
from anonymity.promise.record import Asked, Parameter, Promise, Sensitive
from anonymity.promise.reference import Reference
from anonymity.regions.tree import RegionTree

REJECTIONS = ("missing", "outside_domain", "unknown_category", "bad_type")
"""Why a row is not let in; stored as positions, so the order is part of the block format."""

SUPPRESSIONS = ("outlier", "too_few_subjects", "too_little_diversity")
"""Why a tuple was let in and not released, whatever was promised: see ``Privacy.reasons``."""

_DIVERSITY = SUPPRESSIONS[2]

KINDS = ("cluster", "merged", "split", "reused", "generalised", "again", "widened")
"""How a release came about; stored as positions."""

FIRST_KINDS = 5
"""So many of them there were always; of the others counts are stored where there are any."""

SHARD_BY_SUBJECT = "subject"

SHARD_BY_REGIONS = "regions"

MOST_STEPS = 2**40
"""Most grid steps of a numeric quasi-identifier's domain, where noise is drawn."""

LARGEST_POSITION = 2**52
"""Farthest grid step from 0, and largest scale of noise in steps: beyond, float64 cannot tell steps apart."""

LEAST_PHI = 2.0**-12
"""Below, the scale of noise on the longest domain would be larger than that."""


class PolicyError(ValueError):
    """A policy that cannot be kept. It names the field and what would be valid."""


@dataclass(frozen=True)
class Numeric:
    """A numeric quasi-identifier, published as an interval.

    Attributes
    ----------
    domain : [lowest, highest] in the column's own unit, both included; None: losses are relative to the range
        observed so far, and every finite value is let in
    step : the grid on which noise is drawn, in the column's own unit, above 0; None: not given (1 for an integer
        column, filled in when the job is planned). A domain holds from 1 to 2^40 of them; its ends need not lie on
        the grid
    ends : the grid of published intervals, in the column's own unit, above 0: their ends are multiples of it, rounded
        outwards, or ends of the domain; None: they are the least and the largest value behind them. A domain holds one
        of them at least, and its ends are 2^52 of them from 0 at most
    """

    name: str
    domain: tuple[float, float] | None = None
    step: float | None = None
    ends: float | None = None

    role: ClassVar[str] = "quasi_identifiers"

    @property
    def place(self) -> str:
        """Where a configuration names it."""
        return f"policy.{self.role}.{self.name}"

    def __post_init__(self) -> None:
        if self.domain is not None and not (
            self.domain[0] <= self.domain[1] and isfinite(self.domain[1] - self.domain[0])
        ):
            raise PolicyError(f"{self.place}.domain: must be two finite numbers, the lower one first")
        # Losses are divided by it.
        if self.domain is not None and 0 < self.domain[1] - self.domain[0] < sys.float_info.min:
            raise PolicyError(
                f"{self.place}.domain: is narrower than {sys.float_info.min:.4g}, which losses "
                "cannot be measured by; give the column another unit, or two ends that are the same"
            )
        if self.step is not None and (problem := _wrong_step(self.step, self.domain)):
            raise PolicyError(f"{self.place}.step: {problem}")
        if self.ends is not None and (problem := _wrong_ends(self.ends, self.domain)):
            raise PolicyError(f"{self.place}.ends: {problem}")


@dataclass(frozen=True)
class Noised(Numeric):
    """A numeric attribute that is published with noise, and that no cluster looks at.

    An epsilon-quasi ((k, epsilon)-anonymity, Section IV).

    Attributes
    ----------
    domain : as of ``Numeric``; needed, and not of one value
    step : as of ``Numeric``; what is published lies on its grid
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
    """A categorical quasi-identifier, published as the lowest common ancestor of its values.

    Attributes
    ----------
    hierarchy : the tree of its values
    builder : what the hierarchy was built by, which knows the leaf of each value; None: a value is the label of its
        leaf
    """

    name: str
    hierarchy: Hierarchy
    builder: Builder | None = None


QuasiIdentifier: TypeAlias = Numeric | Categorical


@dataclass(frozen=True)
class Pseudonym:
    """A code of the subject beside each released row (``anonymity.pseudonym``).

    Attributes
    ----------
    column : its name in what is released
    scope : within what one person's rows have the same code: all of the ``stream``, a UTC ``day`` of event time, or a
        ``release`` of a shard
    accept_linkable : whether rows may be told to be one person's, though each release is promised for itself
    """

    column: str
    scope: Literal["stream", "day", "release"]
    accept_linkable: bool = False

    @property
    def links_releases(self) -> bool:
        """Whether it tells of rows of different releases that they are one person's."""
        return self.scope != "release"


@dataclass(frozen=True)
class Policy:
    """The role of each column of the source.

    Attributes
    ----------
    quasi_identifiers : in the order in which they are published; at least one
    sensitive : columns in which every release is l-diverse; published as they are
    noised : numbers that are published with noise within each release ``Privacy.noise_within``
    passthrough : columns that are published as they are and promise nothing
    subject : the person that a tuple is about; None: every tuple is its own person
    event_time : None where the stream has none
    event_time_limit : milliseconds, 0 or more, by which a row may be dated ahead of the watermark; None: no such limit
    reference : a column that is shown with a rejected row (an offset, a line number), never published
    drop : columns that are read and thrown away
    missing : ``reject`` rows with a missing value, or keep a missing category as a ``value`` of its own
    pseudonym : a code of the subject that is published with each released row; None: none is
    """

    quasi_identifiers: tuple[QuasiIdentifier, ...]
    sensitive: tuple[str, ...] = ()
    passthrough: tuple[str, ...] = ()
    subject: str | None = None
    event_time: str | None = None
    reference: str | None = None
    drop: tuple[str, ...] = ()
    missing: Literal["reject", "value"] = "reject"
    event_time_limit: int | None = None
    noised: tuple[Noised, ...] = ()
    pseudonym: Pseudonym | None = None

    def __post_init__(self) -> None:
        if self.event_time_limit is not None and self.event_time is None:
            raise PolicyError("policy.event_time_limit: policy.event_time names no column; name one, or remove it")
        if self.event_time_limit is not None and self.event_time_limit < 0:
            raise PolicyError(f"policy.event_time_limit: must be 0 or more, not {self.event_time_limit}")
        if not self.quasi_identifiers:
            raise PolicyError("policy.quasi_identifiers: at least one is needed")
        roles = [("quasi_identifiers", attribute.name) for attribute in self.quasi_identifiers]
        roles += [("noised", attribute.name) for attribute in self.noised]
        roles += [(role, name) for role in ("sensitive", "passthrough", "drop") for name in getattr(self, role)]
        roles += [
            (role, name) for role in ("subject", "event_time", "reference") if (name := getattr(self, role)) is not None
        ]
        taken: dict[str, str] = {}
        for role, name in roles:
            if name in taken:
                raise PolicyError(f"policy.{role}: column {name!r} has the role {taken[name]!r} already; give it one")
            taken[name] = role
        if self.pseudonym is not None:
            self._require_pseudonym(self.pseudonym)

    def _require_pseudonym(self, pseudonym: Pseudonym) -> None:
        if self.subject is None:
            raise PolicyError("policy.pseudonym: is a code of persons, but policy.subject names no column; name one")
        if pseudonym.scope == "day" and self.event_time is None:
            raise PolicyError(
                "policy.pseudonym.scope: a day is one of event time, but policy.event_time names no column; name one"
            )
        published = {a.name for a in self.quasi_identifiers} | set(self.members)
        published |= {f"{a.name}_{end}" for a in self.numeric for end in ("min", "max")}
        if pseudonym.column in published:
            raise PolicyError(
                f"policy.pseudonym.column: {pseudonym.column!r} is published already; give the code another name"
            )

    @property
    def numeric(self) -> tuple[Numeric, ...]:
        return tuple(a for a in self.quasi_identifiers if isinstance(a, Numeric))

    @property
    def categorical(self) -> tuple[Categorical, ...]:
        return tuple(a for a in self.quasi_identifiers if isinstance(a, Categorical))

    @property
    def coded(self) -> tuple[QuasiIdentifier, ...]:
        """The quasi-identifiers in the order of a block's columns: numeric ones first."""
        return (*self.numeric, *self.categorical)

    @property
    def members(self) -> tuple[str, ...]:
        """The columns that each member of a release has of its own, in the order in which they are published."""
        return self.sensitive + tuple(attribute.name for attribute in self.noised) + self.passthrough

    @property
    def roles(self) -> dict[str, str]:
        """Role by column."""
        named = {attribute.name: "quasi_identifier" for attribute in self.quasi_identifiers}
        named.update({attribute.name: "noised" for attribute in self.noised})
        for role in ("sensitive", "passthrough", "drop"):
            named.update(dict.fromkeys(getattr(self, role), role))
        for role in ("subject", "event_time", "reference"):
            if (name := getattr(self, role)) is not None:
                named[name] = role
        return named


LINKABLE = "linkable"
"""Why a tuple was suppressed that would tell too much whose it is: by its noised values, or those of others of its
class; or by the generalisations of a person's releases together."""


@dataclass(frozen=True)
class Confidence:
    """Who is suppressed because too few others may be behind a published value ((k, epsilon)-anonymity, Section V-C).

    Attributes
    ----------
    c : probability with which a noised value lies within the linking range of the original, above 0 and below 1
    k : distinct subjects that must lie within it, where any does; 2 or more
    """

    c: float
    k: int

    def __post_init__(self) -> None:
        if not 0 < self.c < 1:
            raise PolicyError("noise_within_release.confidence.c: must be above 0 and below 1")
        if self.k < 2:
            raise PolicyError(f"noise_within_release.confidence.k: must be 2 or more, not {self.k}")


@dataclass(frozen=True)
class NoiseWithin:
    """Noise on noised attributes, scaled within each release ((k, epsilon)-anonymity, Section IV).

    Attributes
    ----------
    epsilon : for the record: shared among its noised attributes; above 0, finite
    shares : (noised,) the share of epsilon of each noised attribute, in the order of the policy, above 0; empty: equal
    scale : the noise of an attribute has the Laplace scale width / (epsilon * share); the width is that of the release,
        as in the paper, or that of the declared ``domain``
    least : the width is never below this share of the declared domain's, from 0 to 1: a release whose values are all
        equal would be published as it is
    confidence : None: nobody is suppressed for it
    """

    epsilon: float
    shares: tuple[float, ...] = ()
    scale: Literal["release", "domain"] = "release"
    least: float = 0.02
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        if not LEAST_PHI <= self.epsilon < inf:
            raise PolicyError("noise_within_release.epsilon: must be a finite number, 2^-12 or more")
        if any(share <= 0 for share in self.shares) or (self.shares and not isclose(sum(self.shares), 1, rel_tol=1e-9)):
            raise PolicyError("noise_within_release.shares: must be above 0 each, and 1 together")
        if not 0 <= self.least <= 1:
            raise PolicyError("noise_within_release.least: must be from 0 to 1")

    def of(self, attributes: int) -> tuple[float, ...]:
        """Epsilon of each noised attribute."""
        return tuple(self.epsilon * share for share in self.shares or (1 / attributes,) * attributes)


@dataclass(frozen=True)
class Lasting:
    """What holds of a person over all their releases, and not only of each (``anonymity.nearest.lasting``).

    Attributes
    ----------
    horizon : milliseconds of event time, 1 or more, after which somebody is forgotten of whom, and of whose companions,
        nothing has come; None: nobody is
    moved : what becomes of a tuple once its values, or the latest of a companion, lie outside of the generalisation: it
        is ``widen`` ed, the tuple is suppressed, or it is published all the same, and the person counted
    """

    horizon: int | None = None
    moved: Literal["widen", "suppress", "count"] = "widen"

    def __post_init__(self) -> None:
        if self.horizon is not None and self.horizon < 1:
            raise PolicyError(f"privacy.persons.horizon: must be 1 ms or more, not {self.horizon}")


@dataclass(frozen=True)
class Privacy:
    """What every release keeps.

    Attributes
    ----------
    k : distinct subjects, 1 or more
    l : l-diversity of each sensitive column (``anonymity.promise.diversity``), 1 to k
    further : promises beside these, with their parameters, of each sensitive column
    noise_within : noise on the policy's noised attributes; None where it has none
    lasting : what holds of a person over all their releases; None: k and l hold of each release alone
    sensitive : what is promised of single columns
    """

    k: int
    l: int = 1  # noqa: E741 - the field's own name for it
    further: Asked = ()
    noise_within: NoiseWithin | None = None
    lasting: Lasting | None = None
    sensitive: tuple[Sensitive, ...] = ()

    def __post_init__(self) -> None:
        if self.k < 1:
            raise PolicyError(f"privacy.k: must be 1 or more, not {self.k}")
        self._require("privacy", self.l, self.further)
        for column in self.sensitive:
            place = f"privacy.sensitive.{column.name}"
            if column.l is None and not column.further and column.reference is None:
                raise PolicyError(f"{place}: asks for nothing; give l or another promise, or remove it")
            self._require(place, column.l, column.further)

    def _require(self, place: str, l: int | None, further: Asked) -> None:  # noqa: E741
        if l is not None and not 1 <= l <= self.k:
            raise PolicyError(f"{place}.l: must be from 1 to k ({self.k}), not {l}")
        for promise, parameter in further:
            if not promise.allowed(parameter, self.k):
                given = (
                    ", ".join(f"{name} {number:g}" for name, number in zip(promise.fields, parameter, strict=True))
                    if isinstance(parameter, tuple)
                    else f"{parameter:g}"
                )
                raise PolicyError(f"{place}.{promise.name}: must be {promise.parameter}, not {given}")

    def require_columns(self, sensitive: Sequence[str]) -> None:
        """Raise ``PolicyError`` where something is promised of a column that is not ``sensitive``."""
        for column in self.sensitive:
            if column.name not in sensitive:
                known = f"one of {', '.join(sensitive)}" if sensitive else "policy.sensitive names no column; name it"
                raise PolicyError(f"privacy.sensitive.{column.name}: is not a column of policy.sensitive; {known}")
        for name in sensitive:
            place = f"privacy.sensitive.{name}.reference"
            compares = [promise.name for promise, _, _ in self.further_of(name) if promise.compares]
            reference = self.reference_of(name)
            if reference is not None and (problem := reference.problem()):
                raise PolicyError(f"privacy.sensitive.{name}.hierarchy: {problem}")
            if compares and reference is None:
                raise PolicyError(f"{place}: is missing; {compares[0]} compares with it: give the path of a CSV file")
            if not compares and reference is not None:
                raise PolicyError(f"{place}: nothing is compared with it; give a promise that is, or remove it")

    def l_of(self, column: str) -> tuple[int, str]:
        """The l of a sensitive column, and the reason of what lacks it."""
        for of in self.sensitive:
            if of.name == column and of.l is not None:
                return of.l, f"{_DIVERSITY}:{column}"
        return self.l, _DIVERSITY

    def further_of(self, column: str) -> tuple[tuple[Promise, Parameter, str], ...]:
        """Promises beside k and l of a sensitive column, their parameters, and the reason of what lacks them."""
        own = [pair for of in self.sensitive if of.name == column for pair in of.further]
        names = {promise.name for promise, _ in own}
        of_all = [(promise, given, promise.reason) for promise, given in self.further if promise.name not in names]
        return (*of_all, *((promise, given, f"{promise.reason}:{column}") for promise, given in own))

    def reference_of(self, column: str) -> Reference | None:
        """The distribution that promises compare a sensitive column with; None where there is none."""
        return next((of.reference for of in self.sensitive if of.name == column), None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a tuple may be suppressed, those of further promises last; stored as positions."""
        confident = self.noise_within is not None and self.noise_within.confidence is not None
        linkable = confident or self.lasting is not None
        further = [promise.reason for promise, _ in self.further]
        for column in self.sensitive:
            further += [self.l_of(column.name)[1], *(reason for _, _, reason in self.further_of(column.name))]
        return tuple(dict.fromkeys((*SUPPRESSIONS, *further, *((LINKABLE,) if linkable else ()))))

    @property
    def least_values(self) -> int:
        """How many values of the sensitive column that needs most of them each release has at least."""
        asked = [*self.further, *(pair for column in self.sensitive for pair in column.further)]
        own = [column.l or 1 for column in self.sensitive]
        return max([self.l, *own, *(promise.least_values(parameter) for promise, parameter in asked)])

    @property
    def in_force(self) -> dict[str, float]:
        """Every promise with its numbers, by name; those of one column have its name behind theirs."""
        noise = {} if self.noise_within is None else {"epsilon_within": self.noise_within.epsilon}
        found: dict[str, float] = {"k": self.k, "l": self.l}
        for promise, parameter in self.further:
            found |= promise.named(parameter)
        for column in self.sensitive:
            if column.l is not None:
                found[f"l_{column.name}"] = column.l
            for promise, parameter in column.further:
                found |= {f"{name}_{column.name}": number for name, number in promise.named(parameter).items()}
        return found | noise


@dataclass(frozen=True)
class DifferentialPrivacy:
    """Sampling and perturbation (CASTLEGUARD, Algorithms 1 and 2; symbols of the paper in brackets).

    Attributes
    ----------
    sample_rate : probability that a tuple is let in (beta), above 0 and at most 1
    phi : noise on a quasi-identifier has the Laplace scale range / phi; 2^-12 or more, finite
    observed_range : the range is what was seen so far, as in the paper, instead of the declared domain
    """

    sample_rate: float
    phi: float
    observed_range: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.sample_rate <= 1:
            raise PolicyError("differential_privacy.sample_rate: must be above 0 and at most 1")
        if not LEAST_PHI <= self.phi < inf:
            raise PolicyError("differential_privacy.phi: must be a finite number, 2^-12 or more")


def without_domain(policy: Policy) -> tuple[str, ...]:
    """Numeric quasi-identifiers whose range is only known from what was seen."""
    return tuple(attribute.name for attribute in policy.numeric if attribute.domain is None)


@dataclass(frozen=True)
class Shards:
    """How the stream is split into independent anonymisers.

    Attributes
    ----------
    count : how many, 1 or more
    by : the subject, a quasi-identifier, or regions where these are given
    regions : the part of the space of quasi-identifiers that each shard gets; None: they are not divided by regions
    """

    count: int = 1
    by: str = SHARD_BY_SUBJECT
    regions: RegionTree | None = None

    def __post_init__(self) -> None:
        if self.count < 1:
            raise PolicyError(f"shards.count: must be 1 or more, not {self.count}")
        if self.regions is not None and self.by != SHARD_BY_REGIONS:
            raise PolicyError(f"shards.regions: goes with 'by: {SHARD_BY_REGIONS}'; set shards.by to it, or remove it")
        if self.regions is not None and len(self.regions) != self.count:
            raise PolicyError(
                f"shards.count: must be {len(self.regions)}, as many as there are regions, not {self.count}"
            )
