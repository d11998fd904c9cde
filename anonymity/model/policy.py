"""Roles of a stream's columns, and its division into shards.

All classes are frozen, and their constructors validate all values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, TypeAdapter, ValidationInfo

from crenel.anonymity.model.attributes import Categorical, Generalized, Noised, Numeric, Presence, QuasiIdentifier
from crenel.anonymity.model.errors import FieldError, PolicyError
from crenel.anonymity.model.explain import fields_of, suggestion
from crenel.anonymity.model.fields import Column, Columns, Duration, FilePath, Positive, Whole, about, setting
from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError
from crenel.anonymity.model.region_tree import RegionsFile, RegionTree

SHARD_BY_SUBJECT = "subject"

SHARD_BY_REGIONS = "regions"

MOST_VALUES = 64
"""Maximum number of distinct values that a record may have in a sensitive array."""

ITEMS = "[*]"
"""End of a step of a path from an array to its rows, as in ``visits[*].diagnosis``."""

_OF_ITEMS = ("sensitive", "passthrough", "drop")
"""Roles that a field of the rows of an array may have."""


def _file_of(value: object) -> object:
    return {"file": value} if isinstance(value, str | Path) else value


@setting
class Contract:
    """A contract of the data, which says which of its columns are personal data.

    Attributes
    ----------
    file : path of an Open Data Contract of version 3 or a descriptor set of Protobuf (both need the extra
        ``contract``), or of a schema of Avro; relative to the configuration
    schema_name : name of one schema object or message, for a contract of several; None: the contract has one
    confirmed : columns that are published unchanged although the contract calls them personal data, or restricted; each
        causes a warning. Such a column is an error without its name here
    """

    file: Annotated[
        FilePath,
        about("the path of a contract, such as visits.odcs.yaml, or of a schema, as visits.avsc or visits.desc"),
    ]
    schema_name: Annotated[
        Column | None,
        about("the name of a schema object or message, such as visits, or null where the contract has one"),
    ] = None
    confirmed: Annotated[Columns, about("a list of columns, such as [trip_id]")] = ()


@setting
class Pseudonym:
    """A code of the subject in each published record (``crenel.anonymity.buffer.releases``).

    Attributes
    ----------
    column : name of the published column, which holds 32 hexadecimal digits and differs from all other published
        names; needs ``policy.subject`` and ``subject_key``
    scope : scope in which the records of one person share a code: the ``"stream"``; a ``"day"`` of event time in UTC,
        which needs ``policy.event_time``; a ``"release"`` of a shard
    accept_linkable : whether ``"stream"`` and ``"day"`` may link the records of a person although the guarantee holds
        per release; not needed with a lasting guarantee
    """

    column: Annotated[Column, about("the name of a column of what is released, such as patient")]
    scope: Annotated[Literal["stream", "day", "release"], about("'stream', 'day' or 'release'")]
    accept_linkable: Annotated[bool, about("true or false")] = False

    @property
    def links_releases(self) -> bool:
        """Whether the code links records of one person across releases."""
        return self.scope != "release"


def _attribute(value: Any, info: ValidationInfo) -> Any:
    """Return the quasi-identifier that a section describes, or an instance in its validated form."""
    if isinstance(value, Mapping):
        section = dict(value)
        kind = section.pop("type", None)
        if kind is None:
            raise FieldError("type", f"is missing; {_EITHER}")
        if kind not in _TYPES:
            raise FieldError("type", f"is not one of the choices{suggestion(kind, list(_TYPES))}; {_EITHER}")
        other = next(other for name, other in _TYPES.items() if name != kind)
        for name in section.keys() & fields_of(other).keys() - fields_of(_TYPES[kind]).keys():
            raise ValueError(f"a {kind} one has no {name!r}; remove it, or make the type {_NAMES[other]!r}")
        if kind == "categorical" and section.get("hierarchy") is None:
            raise ValueError("a categorical one needs a 'hierarchy', the path of its file or what builds it; add it")
        return _ADAPTERS[_TYPES[kind]].validate_python(section, context=info.context)
    for kind, adapter in _ADAPTERS.items():
        if isinstance(value, kind):
            return adapter.validate_python(value, context=info.context)
    raise ValueError("is not a mapping")


_EITHER = "'numeric' or 'categorical'"
_TYPES: dict[str, type[Numeric] | type[Categorical]] = {"numeric": Numeric, "categorical": Categorical}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in _TYPES.values()}


@setting
class Policy:
    """The role of each column. A column without a role is an error: no column is published by default.

    Attributes
    ----------
    quasi_identifiers : at least one, by column, in the order of publication
    sensitive : columns in which every release is l-diverse; published unchanged, but for ``generalized``
    noised : numbers that are published with noise within each release, by column; no equivalence class is formed by
        them, and a record without one is rejected
    passthrough : columns that are published unchanged and without any guarantee
    drop : columns that are discarded
    subject : column that identifies the person of a record; k counts persons. None: every record is its own person
    subject_normalization : which spellings of a subject are one person: ``"nfc"`` those that Unicode composes to the
        same characters, ``"trim"`` those with and without outer spaces
    event_time : column of event time; None: none
    event_time_limit : maximum lead of a record's event time over the watermark; a record beyond it is rejected as
        ``outside_domain``. None: no limit
    reference : column that identifies a rejected record; never published with released ones
    missing : ``"reject"`` records with a missing value; or keep it as a ``"value"``: a missing category is a leaf
        ``(missing)`` below the root, and a missing sensitive value is a value; numbers have a field of their own
    pseudonym : a code of the subject in each published record; None: no code
    neutralize_formulas : whether a text of a sensitive, pass-through or reference column that begins with ``=``, ``+``,
        ``-``, ``@``, a tab or a carriage return gets an apostrophe in front, so that no spreadsheet evaluates it
    contract : contract of the data; None: none
    arrays : sensitive columns that are arrays, each with the maximum number of distinct values of a record, 1 to 64; a
        record with more is rejected as ``too_many_values``. ``visits[*].diagnosis`` is an array with a field of each
        row of the array ``visits``
    generalized : sensitive columns of which the label of a hierarchy is published, and counted by privacy models
    """

    quasi_identifiers: Annotated[
        dict[Column, Annotated[Numeric | Categorical, PlainValidator(_attribute)]],
        Field(min_length=1),
        about("at least one 'column: {type: numeric}' or 'column: {type: categorical, hierarchy: FILE}'"),
    ]
    sensitive: Annotated[Columns, about("a list of columns, such as [income]")] = ()
    noised: Annotated[
        dict[Column, Noised],
        about("numbers that are published with noise: 'column: {domain: [100, 220], step: 1}'"),
    ] = field(default_factory=dict)
    passthrough: Annotated[Columns, about("a list of columns, such as [trip_id]")] = ()
    drop: Annotated[Columns, about("a list of columns, such as [name]")] = ()
    subject: Annotated[Column | None, about("a column, or null where every row is its own person")] = None
    subject_normalization: Annotated[tuple[Literal["nfc", "trim"], ...], about("a list of nfc and trim")] = ()
    event_time: Annotated[Column | None, about("a column, or null where there is none")] = None
    event_time_limit: Annotated[
        Duration | None,
        about("a duration such as '1 h', or null: how far ahead of the watermark a row may be dated"),
    ] = None
    reference: Annotated[Column | None, about("a column to show with rejected rows, or null")] = None
    missing: Annotated[Literal["reject", "value"], about("'reject' or 'value'")] = "reject"
    pseudonym: Annotated[
        Pseudonym | None,
        about("a mapping such as {column: patient, scope: day}, or null: a code of the subject in each row"),
    ] = None
    neutralize_formulas: Annotated[bool, about("true or false")] = False
    contract: Annotated[
        Annotated[Contract, BeforeValidator(_file_of)] | None,
        about("the path of a contract, a mapping such as {file: visits.odcs.yaml, confirmed: [trip_id]}, or null"),
    ] = None
    arrays: Annotated[
        dict[Column, Annotated[Whole, Field(ge=1, le=MOST_VALUES)]],
        about(f"sensitive arrays: 'column: 8', the maximum number of values of a record, 1 to {MOST_VALUES}"),
    ] = field(default_factory=dict)
    generalized: Annotated[
        dict[Column, Generalized],
        about("sensitive columns of which a label is published: 'column: {hierarchy: FILE, level: 1}'"),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.event_time_limit is not None and self.event_time is None:
            raise PolicyError("policy.event_time_limit: policy.event_time names no column; name one, or remove it")
        if self.subject_normalization and self.subject is None:
            raise PolicyError("policy.subject_normalization: policy.subject names no column; name one, or remove it")
        for role in ("quasi_identifiers", "noised", "generalized"):
            object.__setattr__(self, role, {n: self._named(n, each) for n, each in getattr(self, role).items()})
        taken: dict[str, str] = {}
        for role, name in self._columns():
            if name in taken:
                raise PolicyError(f"policy.{role}: column {name!r} has the role {taken[name]!r} already; give it one")
            taken[name] = role
            _require_one_value(role, name)
        for presence in self.categorical:
            if isinstance(presence, Presence) and presence.name in taken:
                raise PolicyError(
                    f"policy.quasi_identifiers.{presence.number}.missing: publishes a column {presence.name!r}, and a "
                    "column of the source has that name; rename it in the source's query or data"
                )
        if self.pseudonym is not None:
            self._require_pseudonym(self.pseudonym)
        for name in self.arrays:
            if name not in self.sensitive:
                raise PolicyError(f"policy.arrays.{name}: is not a column of policy.sensitive; name it there too")
        for attribute in self.generalized.values():
            if attribute.name not in self.sensitive:
                raise PolicyError(f"{attribute.place}: is not a column of policy.sensitive; name it there too")
            if attribute.name in self.arrays:
                raise PolicyError(f"{attribute.place}: a sensitive array is published unchanged; remove one of the two")

    def _named(self, name: str, attribute: Numeric | Categorical | Noised | Generalized) -> Any:
        """Return an attribute with its name; where missing values are kept, its hierarchy has a leaf for them."""
        if attribute.name not in ("", name):
            raise PolicyError(f"{attribute.named(name).place}.name: is unknown; the key is the column")
        hierarchy = getattr(attribute, "hierarchy", None)
        if self.missing == "value" and isinstance(hierarchy, Hierarchy) and not hierarchy.has_missing:
            try:
                attribute = replace(attribute, hierarchy=hierarchy.with_missing())  # type: ignore[arg-type]
            except HierarchyError as error:
                raise PolicyError(f"{attribute.named(name).place}.hierarchy: {error}") from None
        return attribute.named(name)

    @cached_property
    def attributes(self) -> tuple[QuasiIdentifier, ...]:
        """The quasi-identifiers; behind each number that may be missing comes its ``Presence``."""
        return tuple(_with_presence(self.quasi_identifiers.values()))

    def _require_pseudonym(self, pseudonym: Pseudonym) -> None:
        if self.subject is None:
            raise PolicyError("policy.pseudonym: is a code of persons, but policy.subject names no column; name one")
        if pseudonym.scope == "day" and self.event_time is None:
            raise PolicyError(
                "policy.pseudonym.scope: a day is one of event time, but policy.event_time names no column; name one"
            )
        published = {a.name for a in self.attributes} | set(self.members)
        published |= {f"{a.name}_{end}" for a in self.numeric for end in ("min", "max")}
        if pseudonym.column in published:
            raise PolicyError(
                f"policy.pseudonym.column: {pseudonym.column!r} is published already; give the code another name"
            )

    @cached_property
    def numeric(self) -> tuple[Numeric, ...]:
        return tuple(a for a in self.attributes if isinstance(a, Numeric))

    @cached_property
    def categorical(self) -> tuple[Categorical, ...]:
        return tuple(a for a in self.attributes if isinstance(a, Categorical))

    @property
    def with_hierarchy(self) -> tuple[Categorical | Generalized, ...]:
        """The attributes that have a hierarchy."""
        return (*self.categorical, *self.generalized.values())

    @property
    def sets(self) -> tuple[Categorical, ...]:
        """The categorical quasi-identifiers of which the set of values of each class is published."""
        return tuple(a for a in self.categorical if a.publish == "set")

    @property
    def widths(self) -> tuple[int, ...]:
        """Maximum number of values of a record, by sensitive column."""
        return tuple(self.arrays.get(name, 1) for name in self.sensitive)

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The columns with a value per member of a release that are published as they are in the source."""
        return tuple(name for name in (*self.sensitive, *self.passthrough) if name not in self.generalized)

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
            quasi_identifiers={
                name: replace(a, publish="interval") if isinstance(a, Numeric) else replace(a, publish="ancestor")
                for name, a in self.quasi_identifiers.items()
            },
        )

    @property
    def coded(self) -> tuple[QuasiIdentifier, ...]:
        """The quasi-identifiers in the order of a block's columns: numeric ones first."""
        return (*self.numeric, *self.categorical)

    @property
    def members(self) -> tuple[str, ...]:
        """The published columns with a value per member of a release, in order of publication."""
        return (*self.sensitive, *self.noised, *self.passthrough)

    @property
    def roles(self) -> dict[str, str]:
        """Role by column of the source."""
        return {name: "quasi_identifier" if role == "quasi_identifiers" else role for role, name in self._columns()}

    def _columns(self) -> Iterator[tuple[str, str]]:
        """Yield the field and the column of each role."""
        for role in ("quasi_identifiers", "noised", "sensitive", "passthrough", "drop"):
            yield from ((role, name) for name in getattr(self, role))
        for role in ("subject", "event_time", "reference"):
            if (name := getattr(self, role)) is not None:
                yield role, name


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
            "inner array one role, or make its rows columns in the source's query or data"
        )
    if f"{ITEMS}." in name and role not in _OF_ITEMS:
        raise PolicyError(
            f"policy.{role}: {name!r} has a value for each row of an array, and this role is of one value for each "
            f"record; give it one of {', '.join(_OF_ITEMS)}, or make each row a record of the same person, by CROSS "
            "JOIN UNNEST in the source's query or explode of a DataFrame"
        )


def _with_presence(attributes: Iterable[QuasiIdentifier]) -> Iterator[QuasiIdentifier]:
    """Yield the attributes, each number that may be missing with its presence."""
    for attribute in attributes:
        yield attribute
        if isinstance(attribute, Numeric) and attribute.missing == "value":
            yield Presence.of(attribute)


def without_domain(policy: Policy) -> tuple[str, ...]:
    """Return the numeric quasi-identifiers without a declared domain, whose range is only observed."""
    return tuple(attribute.name for attribute in policy.numeric if attribute.domain is None)


@setting
class Shards:
    """Division of the stream among independent anonymizers.

    Attributes
    ----------
    count : number of independent anonymizers
    by : ``"subject"``, a quasi-identifier (categorical, or numeric with a domain), or ``"regions"``
    regions : path of a file of regions, which ``crenel regions`` writes, or the ``RegionTree`` that it becomes;
        required with ``by: regions``
    """

    count: Annotated[Positive, about("a whole number, 1 or more")] = 1
    by: Annotated[Column, about("'subject', a quasi-identifier, or 'regions'")] = SHARD_BY_SUBJECT
    regions: Annotated[
        RegionsFile | None,
        about("with 'by: regions', the path of what 'crenel regions' wrote, relative to the configuration"),
    ] = None

    def __post_init__(self) -> None:
        if self.regions is not None and self.by != SHARD_BY_REGIONS:
            raise PolicyError(
                f"shards.regions: goes with 'by: {SHARD_BY_REGIONS}'; set shards.by to it, or remove the file"
            )
        if isinstance(self.regions, RegionTree) and len(self.regions) != self.count:
            raise PolicyError(
                f"shards.count: must be {len(self.regions)}, as many as there are regions, not {self.count}"
            )
