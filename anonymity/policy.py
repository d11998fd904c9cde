"""What a stream may become: roles of its columns, what every release promises, and how CASTLE works.

All of these are frozen and hold only values that were validated by their own constructors.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Literal, TypeAlias

from anonymity.hierarchy import Hierarchy
from anonymity.key_digest import is_salted, key_digest, matches, salted

REJECTIONS = ("missing", "outside_domain", "unknown_category", "bad_type")
"""Why a row is not let in; stored as positions, so the order is part of the block format."""

SUPPRESSIONS = ("outlier", "too_few_subjects", "too_little_diversity")
"""Why a tuple was let in and not released; stored as positions."""

KINDS = ("cluster", "merged", "split", "reused", "generalised")
"""How a release came about; stored as positions."""

SHARD_BY_SUBJECT = "subject"

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
    """

    name: str
    domain: tuple[float, float] | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        if self.domain is not None and not (
            self.domain[0] <= self.domain[1] and isfinite(self.domain[1] - self.domain[0])
        ):
            raise PolicyError(
                f"policy.quasi_identifiers.{self.name}.domain: must be two finite numbers, the lower one first"
            )
        # Losses are divided by it.
        if self.domain is not None and 0 < self.domain[1] - self.domain[0] < sys.float_info.min:
            raise PolicyError(
                f"policy.quasi_identifiers.{self.name}.domain: is narrower than {sys.float_info.min:.4g}, which losses "
                "cannot be measured by; give the column another unit, or two ends that are the same"
            )
        if self.step is not None and (problem := _wrong_step(self.step, self.domain)):
            raise PolicyError(f"policy.quasi_identifiers.{self.name}.step: {problem}")


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


@dataclass(frozen=True)
class Categorical:
    """A categorical quasi-identifier, published as the lowest common ancestor of its values."""

    name: str
    hierarchy: Hierarchy


QuasiIdentifier: TypeAlias = Numeric | Categorical


@dataclass(frozen=True)
class Policy:
    """The role of each column of the source.

    Attributes
    ----------
    quasi_identifiers : in the order in which they are published; at least one
    sensitive : columns of which every release holds l distinct values; published as they are
    passthrough : columns that are published as they are and promise nothing
    subject : the person that a tuple is about; None: every tuple is its own person
    event_time : None where the stream has none
    event_time_limit : milliseconds, 0 or more, by which a row may be dated ahead of the watermark; None: no such limit
    reference : a column that is shown with a rejected row (an offset, a line number), never published
    drop : columns that are read and thrown away
    missing : ``reject`` rows with a missing value, or keep a missing category as a ``value`` of its own
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

    def __post_init__(self) -> None:
        if self.event_time_limit is not None and self.event_time is None:
            raise PolicyError("policy.event_time_limit: policy.event_time names no column; name one, or remove it")
        if self.event_time_limit is not None and self.event_time_limit < 0:
            raise PolicyError(f"policy.event_time_limit: must be 0 or more, not {self.event_time_limit}")
        if not self.quasi_identifiers:
            raise PolicyError("policy.quasi_identifiers: at least one is needed")
        roles = [("quasi_identifiers", attribute.name) for attribute in self.quasi_identifiers]
        roles += [(role, name) for role in ("sensitive", "passthrough", "drop") for name in getattr(self, role)]
        roles += [
            (role, name) for role in ("subject", "event_time", "reference") if (name := getattr(self, role)) is not None
        ]
        taken: dict[str, str] = {}
        for role, name in roles:
            if name in taken:
                raise PolicyError(f"policy.{role}: column {name!r} has the role {taken[name]!r} already; give it one")
            taken[name] = role

    @property
    def numeric(self) -> tuple[Numeric, ...]:
        return tuple(a for a in self.quasi_identifiers if isinstance(a, Numeric))

    @property
    def categorical(self) -> tuple[Categorical, ...]:
        return tuple(a for a in self.quasi_identifiers if isinstance(a, Categorical))

    @property
    def members(self) -> tuple[str, ...]:
        """The columns that are published as they are, in the order in which they are published."""
        return self.sensitive + self.passthrough

    @property
    def roles(self) -> dict[str, str]:
        """Role by column."""
        named = {attribute.name: "quasi_identifier" for attribute in self.quasi_identifiers}
        for role in ("sensitive", "passthrough", "drop"):
            named.update(dict.fromkeys(getattr(self, role), role))
        for role in ("subject", "event_time", "reference"):
            if (name := getattr(self, role)) is not None:
                named[name] = role
        return named


@dataclass(frozen=True)
class Privacy:
    """Every release holds at least ``k`` distinct subjects and ``l`` distinct values of each sensitive column."""

    k: int
    l: int = 1  # noqa: E741 - the field's own name for it

    def __post_init__(self) -> None:
        if self.k < 1:
            raise PolicyError(f"privacy.k: must be 1 or more, not {self.k}")
        if not 1 <= self.l <= self.k:
            raise PolicyError(f"privacy.l: must be from 1 to k ({self.k}), not {self.l}")


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


@dataclass(frozen=True)
class CastleParameters:
    """How CASTLE works (symbols of the paper in brackets).

    Attributes
    ----------
    delay_tuples : how many later tuples of its shard a tuple may wait for (delta), 0 or more; None: no such bound
    delay_event_time : how long a tuple may wait, milliseconds of event time, 0 or more; None: no such bound
    max_clusters : most clusters open at once (beta), 1 or more
    loss_window : how many recent releases tau averages (mu), 1 or more
    reuse_limit : most generalisations kept for reuse (the size of Omega), 0 or more; the oldest leave first
    suppression : ``withhold`` a tuple that cannot be released, or publish it fully ``generalise`` d as the paper does
    """

    delay_tuples: int | None = None
    delay_event_time: int | None = None
    max_clusters: int = 50
    loss_window: int = 100
    reuse_limit: int = 1000
    suppression: Literal["withhold", "generalise"] = "withhold"

    def __post_init__(self) -> None:
        if self.delay_tuples is None and self.delay_event_time is None:
            raise PolicyError("castle.delay: give 'tuples', 'event_time', or both; without either nothing would leave")
        for field, value, least in (
            ("delay.tuples", self.delay_tuples, 0),
            ("delay.event_time", self.delay_event_time, 0),
            ("max_clusters", self.max_clusters, 1),
            ("loss_window", self.loss_window, 1),
            ("reuse_limit", self.reuse_limit, 0),
        ):
            if value is not None and value < least:
                raise PolicyError(f"castle.{field}: must be {least} or more, not {value}")


NEEDS_DOMAIN = (
    "castle.suppression: generalise publishes the whole range, and without a domain that is the range seen so far, "
    "whose ends are values of persons; give a domain, or withhold"
)


def without_domain(policy: Policy) -> tuple[str, ...]:
    """Numeric quasi-identifiers whose range is only known from what was seen."""
    return tuple(attribute.name for attribute in policy.numeric if attribute.domain is None)


@dataclass(frozen=True)
class Shards:
    """How the stream is split into independent anonymisers: by subject, or by a quasi-identifier."""

    count: int = 1
    by: str = SHARD_BY_SUBJECT

    def __post_init__(self) -> None:
        if self.count < 1:
            raise PolicyError(f"shards.count: must be 1 or more, not {self.count}")


class Fingerprint(dict[str, str]):
    """A short hash for each field that stored state cannot outlive, by the field's name.

    Attributes
    ----------
    key : ``anonymity.key_digest.key_digest`` of the subject key, which is compared but never stored; empty where the
        fingerprint came out of state
    """

    key: str = ""


TELLING: Mapping[str, str] = {
    "source.query": "the query",
    "source.ddl": "a computed column of the source",
}
"""Fields that may change, but perhaps should not: what each of them is."""

_SUBJECT_TYPE = "type of the subject "


def fingerprint(
    policy: Policy,
    shards: Shards,
    subject_key: bytes,
    members: Mapping[str, str],
    *,
    algorithm: Literal["castle", "window"] = "castle",
    differential_privacy: DifferentialPrivacy | None = None,
    subject_type: str | None = None,
    source: Mapping[str, str] | None = None,
) -> Fingerprint:
    """A short hash for each field that stored state cannot outlive, by the field's name.

    That is: columns, their roles, the types of published ones (``members``: type by column) and of the subject, as its
    hash is of the text that the type gives it, domains, hierarchies, how missing values are kept, the split into
    shards, and the key of the subject hash; and differential privacy with the steps of its noise where it is on, as
    waiting tuples carry the noise that was drawn when they came in; and the algorithm where it is not CASTLE, which
    older state does not name. k, l and the algorithm's parameters may change between two runs; these may not. Of
    ``source``, the texts of ``TELLING`` by their names, a change is only told: a query may be written in another way
    and mean the same.

    Of the key a salted hash is kept, which is another in each process: ``changed_fields`` compares it. State of earlier
    versions has an unsalted one, lacks the type of the subject and the texts, and is restored all the same.
    """
    digest = key_digest(subject_key)
    fields: dict[str, object] = {
        "policy.quasi_identifiers": [attribute.name for attribute in policy.quasi_identifiers],
        "policy.sensitive": policy.sensitive,
        "policy.passthrough": policy.passthrough,
        "policy.subject": policy.subject,
        "policy.event_time": policy.event_time,
        "policy.missing": policy.missing,
        "shards.count": shards.count,
        "shards.by": shards.by,
        "subject_key": digest,
    }
    for attribute in policy.quasi_identifiers:
        place = f"policy.quasi_identifiers.{attribute.name}"
        if isinstance(attribute, Numeric):
            fields[f"{place}.domain"] = attribute.domain
            if differential_privacy is not None:
                fields[f"{place}.step"] = attribute.step
        else:
            tree = attribute.hierarchy
            fields[f"{place}.hierarchy"] = [tree.labels, tree.parent.tolist()]
    for name, kind in members.items():
        fields[f"type of the column {name}"] = kind
    if policy.subject is not None and subject_type is not None:
        fields[f"{_SUBJECT_TYPE}{policy.subject}"] = subject_type
    fields.update(source or {})
    if differential_privacy is not None:
        fields["differential_privacy"] = asdict(differential_privacy)
    if algorithm != "castle":
        fields["algorithm"] = algorithm
    found = Fingerprint({name: _short(value) for name, value in fields.items()})
    found.key = digest
    if subject_key:
        found["subject_key"] = salted(digest)
    return found


def changed_fields(stored: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Fields by which a stored fingerprint differs from one of now, and that cannot change; sorted.

    Those that only one of them has are among them, but for what earlier versions did not store.
    """
    return tuple(sorted(name for name in stored.keys() | now.keys() if _differs(name, stored, now)))


def told_fields(stored: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Fields of ``TELLING`` by which a stored fingerprint differs from one of now; sorted."""
    return tuple(sorted(name for name in TELLING if name in stored and stored[name] != now.get(name)))


def _differs(name: str, stored: Mapping[str, str], now: Mapping[str, str]) -> bool:
    if name in TELLING or (name not in stored and name.startswith(_SUBJECT_TYPE)):
        return False
    if name == "subject_key" and name in stored and isinstance(now, Fingerprint) and now.key:
        was = stored[name]
        return not matches(was, now.key) if is_salted(was) else was != _short(now.key)
    return stored.get(name) != now.get(name)


def _short(value: object) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()
