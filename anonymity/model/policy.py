"""Roles of a stream's columns, and its division into shards.

All classes are frozen, and their constructors validate all values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from crenel.anonymity.model.attributes import Categorical, Generalized, Noised, Numeric, Presence, QuasiIdentifier
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.region_tree import RegionTree

SHARD_BY_SUBJECT = "subject"

SHARD_BY_REGIONS = "regions"

MOST_VALUES = 64
"""Maximum number of distinct values that a record may have in a sensitive array."""

ITEMS = "[*]"
"""End of a step of a path from an array to its rows, as in ``visits[*].diagnosis``."""

_OF_ITEMS = ("sensitive", "passthrough", "drop")
"""Roles that a field of the rows of an array may have."""


@dataclass(frozen=True)
class Pseudonym:
    """A code of the subject, published with each record (``crenel.anonymity.buffer.releases``).

    Attributes
    ----------
    column : name of the published column
    scope : scope in which the records of one person share a code: the whole ``stream``, a UTC ``day`` of event time, or
        a ``release`` of a shard
    accept_linkable : whether records may be linked to one person, although the guarantee holds per release
    """

    column: str
    scope: Literal["stream", "day", "release"]
    accept_linkable: bool = False

    @property
    def links_releases(self) -> bool:
        """Whether the code links records of one person across releases."""
        return self.scope != "release"


@dataclass(frozen=True)
class Policy:
    """The role of each column of the source.

    Attributes
    ----------
    quasi_identifiers : in the order in which they are published; at least one. Behind each number with ``missing:
        value`` comes its ``Presence``, which the constructor adds
    sensitive : columns in which every release is l-diverse; published unchanged, but for ``generalized``
    noised : numeric columns published with noise inside each release (``Privacy.noise_within``)
    passthrough : columns published unchanged and without any guarantee
    subject : the column that identifies the person; None: every tuple is its own person
    subject_normalization : what is done to the text of a subject before it is hashed, so that two spellings are one
        person: ``nfc`` composes characters of Unicode, ``trim`` removes outer spaces
    event_time : None where the stream has none
    event_time_limit : milliseconds, at least 0, by which a record may be dated ahead of the watermark; None: no limit
    reference : a column that identifies a rejected record (an offset, a line number); never published
    drop : columns that are read and discarded
    missing : ``reject`` records with a missing value, or keep a missing category as a ``value`` of its own; each number
        has a setting of its own
    pseudonym : a code of the subject, published with each record; None: no code
    neutralize_formulas : whether published texts that a spreadsheet would evaluate get an apostrophe in front
    arrays : sensitive columns that are arrays, each with the maximum number of distinct values of a record, 1 to
        ``MOST_VALUES``
    generalized : sensitive columns of which a label of a hierarchy is published
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
    neutralize_formulas: bool = False
    arrays: tuple[tuple[str, int], ...] = ()
    generalized: tuple[Generalized, ...] = ()
    subject_normalization: tuple[Literal["nfc", "trim"], ...] = ()

    def __post_init__(self) -> None:
        if self.event_time_limit is not None and self.event_time is None:
            raise PolicyError("policy.event_time_limit: policy.event_time names no column; name one, or remove it")
        if self.event_time_limit is not None and self.event_time_limit < 0:
            raise PolicyError(f"policy.event_time_limit: must be 0 or more, not {self.event_time_limit}")
        if self.subject_normalization and self.subject is None:
            raise PolicyError("policy.subject_normalization: policy.subject names no column; name one, or remove it")
        if not self.quasi_identifiers:
            raise PolicyError("policy.quasi_identifiers: at least one is needed")
        object.__setattr__(self, "quasi_identifiers", tuple(_with_presence(self.quasi_identifiers)))
        roles = [("quasi_identifiers", a.name) for a in self.quasi_identifiers if not isinstance(a, Presence)]
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
            _require_one_value(role, name)
        for presence in self.categorical:
            if isinstance(presence, Presence) and presence.name in taken:
                raise PolicyError(
                    f"policy.quasi_identifiers.{presence.number}.missing: publishes a column {presence.name!r}, and a "
                    "column of the source has that name; rename it in source.query"
                )
        if self.pseudonym is not None:
            self._require_pseudonym(self.pseudonym)
        for name, values in self.arrays:
            if name not in self.sensitive:
                raise PolicyError(f"policy.arrays.{name}: is not a column of policy.sensitive; name it there too")
            if not 1 <= values <= MOST_VALUES:
                raise PolicyError(f"policy.arrays.{name}: must be from 1 to {MOST_VALUES}, not {values}")
        for attribute in self.generalized:
            if attribute.name not in self.sensitive:
                raise PolicyError(f"{attribute.place}: is not a column of policy.sensitive; name it there too")
            if attribute.name in dict(self.arrays):
                raise PolicyError(f"{attribute.place}: a sensitive array is published unchanged; remove one of the two")

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
    def with_hierarchy(self) -> tuple[Categorical | Generalized, ...]:
        """The attributes that have a hierarchy."""
        return (*self.categorical, *self.generalized)

    @property
    def sets(self) -> tuple[Categorical, ...]:
        """The categorical quasi-identifiers of which the set of values of each class is published."""
        return tuple(a for a in self.categorical if a.publish == "set")

    @property
    def widths(self) -> tuple[int, ...]:
        """Maximum number of values of a record, by sensitive column."""
        arrays = dict(self.arrays)
        return tuple(arrays.get(name, 1) for name in self.sensitive)

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The columns with a value per member of a release that are published as they are in the source."""
        generalized = {attribute.name for attribute in self.generalized}
        return tuple(name for name in (*self.sensitive, *self.passthrough) if name not in generalized)

    @property
    def presence(self) -> tuple[tuple[int, int], ...]:
        """The columns of each number that may be missing and of its ``Presence``, among numbers and categories."""
        numbers = {attribute.name: column for column, attribute in enumerate(self.numeric)}
        return tuple(
            (numbers[a.number], column) for column, a in enumerate(self.categorical) if isinstance(a, Presence)
        )

    @property
    def states_published_loss(self) -> bool:
        """Whether classes may be published in less general forms than those that they were formed by."""
        return bool(self.sets or self.presence)

    @property
    def without_forms(self) -> Policy:
        """The same policy with an interval or a common ancestor in the place of each other published form."""
        return replace(
            self,
            quasi_identifiers=tuple(
                replace(a, publish="interval") if isinstance(a, Numeric) else replace(a, publish="ancestor")
                for a in self.quasi_identifiers
            ),
        )

    @property
    def coded(self) -> tuple[QuasiIdentifier, ...]:
        """The quasi-identifiers in the order of a block's columns: numeric ones first."""
        return (*self.numeric, *self.categorical)

    @property
    def members(self) -> tuple[str, ...]:
        """The published columns with a value per member of a release, in order of publication."""
        return self.sensitive + tuple(attribute.name for attribute in self.noised) + self.passthrough

    @property
    def roles(self) -> dict[str, str]:
        """Role by column of the source."""
        named = {a.name: "quasi_identifier" for a in self.quasi_identifiers if not isinstance(a, Presence)}
        named.update({attribute.name: "noised" for attribute in self.noised})
        for role in ("sensitive", "passthrough", "drop"):
            named.update(dict.fromkeys(getattr(self, role), role))
        for role in ("subject", "event_time", "reference"):
            if (name := getattr(self, role)) is not None:
                named[name] = role
        return named


def _require_one_value(role: str, name: str) -> None:
    """Check the role of a column that is a field of the rows of an array.

    Raises
    ------
    PolicyError
        The path leads through an array in an array, or the role is one of single values.
    """
    if name.count(f"{ITEMS}.") > 1:
        raise PolicyError(
            f"policy.{role}: {name!r} leads through an array in an array, and a path may have one {ITEMS!r}; give the "
            "inner array one role, or make its rows columns in source.query"
        )
    if f"{ITEMS}." in name and role not in _OF_ITEMS:
        raise PolicyError(
            f"policy.{role}: {name!r} has a value for each row of an array, and this role is of one value for each "
            f"record; give it one of {', '.join(_OF_ITEMS)}, or make each row a record of the same person, by CROSS "
            "JOIN UNNEST in source.query"
        )


def _with_presence(attributes: Iterable[QuasiIdentifier]) -> Iterator[QuasiIdentifier]:
    """Yield the attributes, each number that may be missing with its presence; leave out presence without a number."""
    for attribute in attributes:
        if isinstance(attribute, Presence):
            continue
        yield attribute
        if isinstance(attribute, Numeric) and attribute.missing == "value":
            yield Presence.of(attribute)


def without_domain(policy: Policy) -> tuple[str, ...]:
    """Return the numeric quasi-identifiers without a declared domain, whose range is only observed."""
    return tuple(attribute.name for attribute in policy.numeric if attribute.domain is None)


@dataclass(frozen=True)
class Shards:
    """The division of the stream among independent anonymizers.

    Attributes
    ----------
    count : number of shards, at least 1
    by : the subject, a quasi-identifier, or regions where ``regions`` is set
    regions : the part of the quasi-identifier space of each shard; None: shards are not divided by regions
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
