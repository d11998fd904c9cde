"""Columns of all outputs, each declared once: name, type and meaning.

The rows of the operator, the SQL of the sinks, the tables of ``crenel.evidence.outputs.RunOutputs`` and the reference
in ``docs/reference/outputs.md`` derive from these declarations. The columns of an algorithm's own output are in its
``Output``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Algorithm, Counters, Output
from crenel.anonymity.buffer.release_buffer import delay_of_bucket
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import ABSENT, SEPARATOR, Numeric, QuasiIdentifier
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.operators.bounds import integer_bounds, within
from crenel.state.counters import declared

RECORD_OUTPUTS = ("released", "audit", "suppressed", "rejected")
"""Outputs that describe single records, or contain generalizations; the summary and an algorithm's own do not."""

Kind: TypeAlias = Literal["INT", "LONG", "DOUBLE", "BOOLEAN", "STRING", "BYTES"]
"""A type of the operator's rows, by its name in ``pyflink.common.Types``, which has no BYTES of one word."""

SQL: dict[Kind, str] = {
    "INT": "INT",
    "LONG": "BIGINT",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "STRING": "STRING",
    "BYTES": "BYTES",
}
"""The same types in SQL."""

ARROW: dict[Kind, pa.DataType] = {
    "INT": pa.int64(),
    "LONG": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "STRING": pa.string(),
    "BYTES": pa.binary(),
}
"""The same types in the tables of ``crenel.evidence.outputs.RunOutputs``."""

_KINDS: dict[pa.DataType, Kind] = {
    pa.int64(): "LONG",
    pa.timestamp("ms"): "LONG",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.binary(): "BYTES",
}
"""The same types by that of a published column in a block."""

CLOSING = "closing"
"""Kind of the record that ends a chained audit log and belongs to no release."""

_TIME = "TIMESTAMP_LTZ(3)"
_OF_SOURCE = "as in the source"


@dataclass(frozen=True)
class OutputColumn:
    """A column of an output.

    Attributes
    ----------
    name : visible to the recipient; ``NAME`` stands for an attribute
    row : name in the operator's rows, which clashes neither with SQL keywords nor with columns of a user; ``#`` stands
        for the position of the attribute
    kind : type in the operator's rows
    meaning : for the reference
    published : type in the sink, in words, where it is not that of ``kind``
    release_field, position : field of ``Releases`` that holds the values, and the column there; None where it has no
        columns
    """

    name: str
    row: str
    kind: Kind
    meaning: str = ""
    published: str = ""
    release_field: str = ""
    position: int | None = None

    def at(self, position: int, name: str) -> OutputColumn:
        """Return the column of one attribute."""
        name, row = self.name.replace("NAME", name), self.row.replace("#", str(position))
        return replace(self, name=name, row=row, position=position)

    @property
    def is_timestamp(self) -> bool:
        """Whether milliseconds are published as a timestamp, in every job."""
        return self.published == _TIME

    def values(self, releases: Releases) -> NDArray[Any]:
        """Return (releases,) the values of a column of releases."""
        values: NDArray[Any] = getattr(releases, self.release_field)
        return values if self.position is None else values[:, self.position]


def _event_time(meaning: str) -> OutputColumn:
    return OutputColumn("event_time", "event_ms", "LONG", meaning, _OF_SOURCE, "event_time")


SHARD = OutputColumn("shard", "shard", "INT", "number of the shard")
_REASON = OutputColumn("reason", "reason", "STRING", "[reason](#reasons)")
_RELEASE = (
    OutputColumn(
        "release_id", "release_id", "LONG", "number of the release within its shard, from 0", release_field="release_id"
    ),
    SHARD,
    _event_time("of the newest record of the release"),
    OutputColumn("kind", "kind", "STRING", "[kind of release](#kinds-of-release)", release_field="kind"),
    OutputColumn("subjects", "subjects", "LONG", "number of distinct subjects", release_field="subjects"),
    OutputColumn("tuples", "tuples", "LONG", "number of records", release_field="tuples"),
)
_DIVERSITY = OutputColumn("diversity_NAME", "d#", "LONG", "diversity of a sensitive column", release_field="diversity")
_LOSS = OutputColumn("loss", "loss", "DOUBLE", "InfoLoss of the generalization, from 0 to 1", release_field="loss")
_PUBLISHED_LOSS = OutputColumn(
    "published_loss",
    "set_loss",
    "DOUBLE",
    "with `publish: set`: as `loss`, with (listed values - 1) / (all values - 1) for each set; with `missing: value`: "
    "as `loss`, without the position that a missing number has while classes are formed",
    release_field="published_loss",
)
_LINKABLE = OutputColumn(
    "linkable", "linked", "LONG", "with noised columns: number of linkable records", release_field="linked"
)
_NOISE = (
    OutputColumn("noise_error_NAME", "e#", "DOUBLE", "mean relative error of the noise", release_field="noise_error"),
    OutputColumn("noise_expected_NAME", "x#", "DOUBLE", "expected mean relative error", release_field="noise_expected"),
)
IN_FORCE = OutputColumn(
    "in_force",
    "",
    "STRING",
    "hash of the [settings in force](#settings-in-force): one for each choice of columns, privacy models, sampling and "
    "noise",
)
_PARAMETER = OutputColumn(
    "PARAMETER",
    "",
    "DOUBLE",
    "values in force: `k`, `l`, other privacy models as `alpha`, those of one column as `alpha_NAME`, `epsilon_within` "
    "with `noise_within_release`, `sample_rate` and `phi`; null where not configured",
    "BIGINT or DOUBLE",
)
"""Stands for the numbers in force, for which SQL has constants, as for the hash (``values_in_force`` of a plan)."""
_ENDS = (
    OutputColumn("NAME_min", "q#_min", "DOUBLE", "lower end of a numeric quasi-identifier", _OF_SOURCE),
    OutputColumn("NAME_max", "q#_max", "DOUBLE", "upper end", _OF_SOURCE),
)
_NUMBER = OutputColumn("NAME", "q#", "DOUBLE", "instead of the ends: numeric representative")
_CATEGORY = OutputColumn("NAME", "q#", "STRING", "label of a categorical quasi-identifier")
_SET = OutputColumn(
    "NAME",
    "q#",
    "STRING",
    "instead of the label, with `publish: set`: the values that occur in the class",
    f"ARRAY<STRING>, or text with {SEPARATOR!r} between values",
)
_MISSING = OutputColumn(
    "NAME_missing",
    "q#",
    "STRING",
    "with `missing: value` of a number: whether the record has no number; `no`, `yes` (the ends are null) or `maybe`",
)
_MEMBER = OutputColumn("NAME", "m#", "STRING", "sensitive, noised or pass-through value of the record", _OF_SOURCE)
_PSEUDONYM = OutputColumn("NAME", "m#", "STRING", "[pseudonym](../privacy/guarantees.md), if the policy has one")
_NO_MEMBER = OutputColumn("", "m0", "BOOLEAN")
"""Column of the operator's rows, always TRUE, where no column is published with a value per member."""

CHAIN = (
    OutputColumn("chain_start", "h0", "LONG", "number of earlier starts of the shard"),
    OutputColumn("chain_version", "h1", "STRING", "version and hash of the code, in the first row after a start"),
    OutputColumn("chain_policy", "h2", "STRING", "hash of the policy, in the first row after a start"),
    OutputColumn("chain_hierarchies", "h3", "STRING", "hash of the hierarchies, in the first row after a start"),
    OutputColumn("chain_settings", "h4", "STRING", "hash of the settings, in the first row after a start"),
    OutputColumn("chain_run", "h5", "STRING", "identity of the run, in the first row after a start"),
    OutputColumn("chain_forms", "h6", "STRING", "hashed form of each published column, there too"),
    OutputColumn("chain_members", "h7", "STRING", "sum of hashes of the records, with a key only"),
    OutputColumn("chain", "h8", "STRING", "hash of the preceding row and of the row's own content"),
)
"""Columns of the audit log's hash chain, after all others."""

SUPPRESSED = (
    _REASON,
    SHARD,
    OutputColumn("position", "seq", "LONG", "of the record among those admitted to its shard, from 0"),
    _event_time("of the record"),
)
REJECTED = (
    OutputColumn("column", "col", "STRING", "first invalid column"),
    _REASON,
    _event_time("of the record"),
    OutputColumn("reference", "reference", "STRING", "the row's value of `policy.reference`, if there is one"),
)
FORGOTTEN = (
    OutputColumn("code", "code", "STRING", "code of the person: 16 digits derived from the subject and `subject_key`"),
    SHARD,
    _event_time("watermark at that moment; null before the first and after the last"),
    OutputColumn("time", "clock_ms", "LONG", "processing time", _TIME),
    OutputColumn("tuples", "tuples", "LONG", "number of the person's buffered records"),
)
SUMMARY = (
    SHARD,
    OutputColumn("name", "name", "STRING", "name of a counter or of a value in force"),
    OutputColumn("amount", "amount", "DOUBLE", "its amount at the end of the input"),
)


def summary_counts(algorithm: Algorithm, privacy: Privacy, counters: Counters) -> Iterator[tuple[str, float]]:
    """Yield the counters of a shard as (name, amount) of ``summary``, without those of rejected rows."""
    for name in (*algorithm.counted, "loss_sum", "longest_delay"):
        yield name, getattr(counters, name)
    for group, amounts in (("suppressed", counters.suppressed), ("releases", counters.releases)):
        for name, amount in amounts.items():
            yield f"{group}.{name}", amount
    for declaration in declared(Counters):
        if declaration.exists(privacy):
            yield declaration.name, getattr(counters, declaration.name)
    for bucket in counters.delays.nonzero()[0].tolist():
        yield f"delay.{delay_of_bucket(bucket)}", int(counters.delays[bucket])


ROWS: Mapping[str, tuple[tuple[OutputColumn, ...], tuple[OutputColumn, ...]]] = {
    "suppressed": ((SHARD,), tuple(column for column in SUPPRESSED if column is not SHARD)),
    "rejected": ((), REJECTED),
    "forgotten": (FORGOTTEN, ()),
    "summary": (SUMMARY, ()),
}
"""Rows of the side outputs that every algorithm has: columns with one value, and columns with one for each tuple."""

REFERENCE: Mapping[str, tuple[OutputColumn, ...]] = {
    "released": (*_ENDS, _NUMBER, _MISSING, _CATEGORY, _SET, _MEMBER, _PSEUDONYM),
    "audit": (*_RELEASE, _DIVERSITY, _LOSS, _PUBLISHED_LOSS, _LINKABLE, *_NOISE, IN_FORCE, _PARAMETER, *CHAIN),
    "suppressed": SUPPRESSED,
    "rejected": REJECTED,
    "forgotten": FORGOTTEN,
    "summary": SUMMARY,
}
"""All columns of the outputs that every algorithm has; in ``audit``, the generalization precedes the chain."""


def release_columns(policy: Policy) -> tuple[OutputColumn, ...]:
    """Return the columns of a release before the values in force."""
    diversity = (_DIVERSITY.at(i, name) for i, name in enumerate(policy.sensitive))
    noise = (column.at(i, attribute.name) for i, attribute in enumerate(policy.noised.values()) for column in _NOISE)
    losses = (_LOSS, _PUBLISHED_LOSS) if policy.states_published_loss else (_LOSS,)
    return (*_RELEASE, *diversity, *losses, *([_LINKABLE] if policy.noised else ()), *noise)


def interval_columns(attribute: str) -> tuple[OutputColumn, ...]:
    """Return the columns of the lower and the upper end of a quasi-identifier."""
    return tuple(end.at(0, attribute) for end in _ENDS)


def generalized_names(attribute: str) -> tuple[str, ...]:
    """Return the names that the published columns of a quasi-identifier may have, in order."""
    return tuple(column.at(0, attribute).name for column in (*_ENDS, _NUMBER))


def rejected_columns(policy: Policy) -> tuple[OutputColumn, ...]:
    """Return the columns of ``rejected``; the operator's rows always have all of ``REJECTED``."""
    return REJECTED if policy.reference is not None else REJECTED[:-1]


def member_columns(policy: Policy, members: pa.Schema) -> tuple[OutputColumn, ...]:
    """Return the published columns with a value per member; the pseudonym is the last.

    Parameters
    ----------
    members : names and types of the columns that are published unchanged
    """
    columns = [replace(_MEMBER.at(i, name), kind=_KINDS[members.field(i).type]) for i, name in enumerate(members.names)]
    if policy.pseudonym is not None:
        columns.append(_PSEUDONYM.at(len(columns), policy.pseudonym.column))
    return tuple(columns)


def in_rows(members: tuple[OutputColumn, ...]) -> tuple[OutputColumn, ...]:
    """Return the columns of members in the operator's rows, of which there is at least one."""
    return members or (_NO_MEMBER,)


def own_columns(output: Output) -> tuple[OutputColumn, ...]:
    """Return the columns of an algorithm's own output; a name such as ``window`` would be an SQL keyword in rows."""
    return tuple(
        OutputColumn(name, f"c{i}", cast(Kind, kind), output.meanings.get(name, ""))
        for i, (name, kind) in enumerate(output.columns.items())
    )


def numbers_in_force(privacy: Privacy, noise: SamplingAndNoise | None) -> dict[str, float | None]:
    """Return the numbers in force, by audit column in order; None where one is not configured."""
    in_force: dict[str, float | None] = dict(privacy.in_force)
    in_force["sample_rate"] = None if noise is None else noise.sample_rate
    in_force["phi"] = None if noise is None else noise.inverse_scale
    return in_force


def number_kind(value: float | None) -> Kind:
    """Return the type of a column of ``numbers_in_force``."""
    return "LONG" if isinstance(value, int) else "DOUBLE"


def output_columns(
    generalization: Generalization,
    members: Iterable[OutputColumn],
    privacy: Privacy,
    noise: SamplingAndNoise | None,
    algorithm: Algorithm,
    *,
    chained: bool,
) -> dict[str, tuple[OutputColumn, ...]]:
    """Return the columns of each output but ``summary``.

    Columns of values in force have no column in the operator's rows.

    Parameters
    ----------
    members : columns with a value per member
    chained : whether the audit log has a hash chain
    """
    policy = generalization.policy
    in_force = numbers_in_force(privacy, noise).items()
    constants = (OutputColumn(name, "", number_kind(value)) for name, value in in_force)
    return {
        "released": (*generalization.columns, *members),
        "audit": (*release_columns(policy), IN_FORCE, *constants, *generalization.columns, *(CHAIN if chained else ())),
        "suppressed": SUPPRESSED,
        "forgotten": FORGOTTEN,
        "rejected": rejected_columns(policy),
        **{output.name: own_columns(output) for output in algorithm.outputs},
    }


@dataclass(frozen=True)
class Generalization:
    """Published form of the quasi-identifiers of a release.

    Attributes
    ----------
    policy : of the job
    representative : whether the algorithm publishes each number as one value, and not as an interval
    integers : names of the numeric quasi-identifiers with whole ends (``crenel.operators.bounds.integer_bounds``)
    extremes : minimum and maximum of the column's type, for numeric quasi-identifiers that are no text
    """

    policy: Policy
    representative: bool
    integers: frozenset[str] = frozenset()
    extremes: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def is_interval(self, attribute: QuasiIdentifier) -> bool:
        """Return whether an attribute is published as the two ends of an interval."""
        return isinstance(attribute, Numeric) and not (self.representative or attribute.has_representative)

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """The columns, in the order of the policy."""
        columns: list[OutputColumn] = []
        for i, attribute in enumerate(self.policy.attributes):
            if not isinstance(attribute, Numeric):
                columns.append((_SET if attribute.publish == "set" else _CATEGORY).at(i, attribute.name))
            elif not self.is_interval(attribute):
                # The mean of whole numbers may be fractional.
                columns.append(_NUMBER.at(i, attribute.name))
            else:
                kind: Kind = "LONG" if attribute.name in self.integers else "DOUBLE"
                columns += [replace(end.at(i, attribute.name), kind=kind) for end in _ENDS]
        return tuple(columns)

    def values(
        self,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        node: NDArray[np.int32],
        listed: Iterable[list[str]] = (),
    ) -> Iterator[list[Any]]:
        """Yield the values of each of ``columns``; a set is one text, with a separator between its values.

        Parameters
        ----------
        lower, upper, node, listed : as of ``crenel.anonymity.buffer.releases.Releases``

        Raises
        ------
        InvariantError
            The type of a column does not hold an end of an interval.
        """
        numeric = categorical = 0
        sets, presence = iter(listed), dict(self.policy.presence)
        for attribute in self.policy.attributes:
            if not isinstance(attribute, Numeric):
                if attribute.publish == "set":
                    yield next(sets)
                else:
                    yield attribute.hierarchy.labels_of(node[:, categorical])
                categorical += 1
                continue
            low, high = lower[:, numeric], upper[:, numeric]
            absent = () if numeric not in presence else np.flatnonzero(node[:, presence[numeric]] == ABSENT).tolist()
            numeric += 1
            for values in self._numbers(attribute, low, high):
                for release in absent:
                    values[release] = None
                yield values

    def _numbers(
        self, attribute: Numeric, low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> tuple[list[Any], ...]:
        """Return the values of the columns of a number that is not missing."""
        if not self.is_interval(attribute):
            values: list[Any] = low.tolist()  # the upper end is the same
            for release in np.flatnonzero(np.isnan(low)).tolist():
                values[release] = None  # a class of few numbers has none
            return (values,)
        low, high = within(low, high, self.extremes.get(attribute.name), is_limited=attribute.domain is not None)
        return integer_bounds(low, high) if attribute.name in self.integers else (low.tolist(), high.tolist())
