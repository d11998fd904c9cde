"""Derivation of the arguments of encode and the columns of all sinks, from a policy and the source's columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import cast

import pyarrow as pa

from crenel.anonymity.algorithm import Output
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.secret import SubjectKey
from crenel.jobs.config.file import ConfigError
from crenel.jobs.pipeline.encoder_arguments import Asked, Reader, extremes, member_kind
from crenel.jobs.pipeline.noise_grids import fill_steps, unfit_ends
from crenel.jobs.pipeline.sink_columns import (
    CHAINED,
    SQL,
    Column,
    Plain,
    arrays,
    further_records,
    noise_types,
    records,
)
from crenel.jobs.pipeline.sql_types import INTEGERS, TEXTS, SqlType, parse
from crenel.operators.column_names import CHAIN
from crenel.operators.encode.columns import Kind, Read, members_schema
from crenel.operators.encode.encoder import EncodePlan

_PLAIN: dict[Kind, Plain] = {
    "integer": "LONG",
    "real": "DOUBLE",
    "boolean": "BOOLEAN",
    "text": "STRING",
    "timestamp": "LONG",
}
_ROLES = "quasi_identifiers, sensitive, noised, passthrough, subject, event_time, reference or drop"
_UNKNOWN = SqlType("STRING", "STRING")
"""Placeholder type for a column that the source lacks, until the error is raised."""


@dataclass(frozen=True)
class Layout:
    """The columns between the source and the sinks.

    The operator's rows use internal column names, so that user-defined names cannot clash with them.

    Attributes
    ----------
    policy : roles of the source's columns; with noise steps, where noise is configured
    arguments : SQL expressions of the arguments of encode
    asked : column and form of each argument; None where it has no ``Form``
    quasi_identifiers, sensitive, noised, passthrough, subject, event_time, reference : how encode reads each column
    watermark : how encode reads the watermark; None where no setting depends on event time
    published : SQL type of each column that is published unchanged, for
        ``crenel.anonymity.model.fingerprint.fingerprint``
    subject_type : SQL type of the subject, for the fingerprint; None where there is none
    source : the query, and the computed columns of the source, for the fingerprint
    integers : for each numeric quasi-identifier, whether its ends are whole
        (``crenel.operators.bounds.integer_bounds``)
    extremes : minimum and maximum of the type, where it has them, of each numeric quasi-identifier with noise or
        rounded ends and without a domain
    sinks : columns of ``released``, ``audit``, ``suppressed``, ``rejected`` and ``forgotten``, and those of the
        algorithm's further outputs; those of ``released`` read a release joined with its members
    release_types : columns of a release: ``release_id``, ``shard``, ``event_ms``, ``kind``, ``subjects``, ``tuples``,
        ``d0``... (diversity), ``loss``, then by position in the policy ``q0_min`` and ``q0_max``, or ``q0``. Where
        attributes are noised, ``linked``, ``e0`` and ``x0``... (actual and expected error of the noise) follow
        ``loss``. With a hash chain ``crenel.operators.column_names.CHAIN`` follows. An array of each of
        ``member_types`` comes last
    member_types : columns of a member, the pseudonym last; where no column is published unchanged, one that is TRUE
    suppressed_types : columns of a suppressed tuple: ``reason``, ``seq``, ``event_ms``, which come as arrays
    rejected_types : columns of a rejected row: ``col``, ``reason``, ``event_ms``, ``reference``, which come as arrays
    forgotten_types : columns of a fulfilled request: ``code``, ``shard``, ``event_ms``, ``clock_ms``, ``tuples``
    """

    policy: Policy
    arguments: tuple[str, ...]
    asked: tuple[Asked | None, ...]
    quasi_identifiers: tuple[Read, ...]
    sensitive: tuple[Read, ...]
    noised: tuple[Read, ...]
    passthrough: tuple[Read, ...]
    subject: Read | None
    event_time: Read | None
    reference: Read | None
    watermark: Read | None
    published: dict[str, str]
    subject_type: str | None
    integers: tuple[bool, ...]
    sinks: dict[str, tuple[Column, ...]]
    release_types: tuple[tuple[str, Plain], ...]
    member_types: tuple[tuple[str, Plain], ...]
    suppressed_types: tuple[tuple[str, Plain], ...]
    rejected_types: tuple[tuple[str, Plain], ...]
    forgotten_types: tuple[tuple[str, Plain], ...]
    source: Mapping[str, str] = field(default_factory=dict)
    extremes: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def members_schema(self) -> pa.Schema:
        """Schema of ``Block.members``."""
        return members_schema(self.sensitive + self.noised + self.passthrough)

    @property
    def release_sql(self) -> str:
        """The SQL type of a release."""
        columns = {name: SQL[plain] for name, plain in self.release_types} | arrays(self.member_types)
        return f"ROW<{', '.join(f'{name} {kind}' for name, kind in columns.items())}>"

    def encode_plan(
        self, shards: Shards, keys: tuple[int, ...], subject_key: SubjectKey, null_text: str = ""
    ) -> EncodePlan:
        """Return the plan of encode for ``arguments``; ``keys`` as ``crenel.operators.shards.keys`` chooses them.

        ``null_text``: text by which the released output writes a missing value.
        """
        return EncodePlan(
            policy=self.policy,
            shards=shards,
            keys=keys,
            quasi_identifiers=self.quasi_identifiers,
            sensitive=self.sensitive,
            noised=self.noised,
            passthrough=self.passthrough,
            subject=self.subject,
            event_time=self.event_time,
            reference=self.reference,
            watermark=self.watermark,
            null_text=null_text,
            subject_key=subject_key,
        )


def layout(
    policy: Policy,
    columns: Mapping[str, str],
    where: Path | str = "source",
    *,
    noise: bool = False,
    representative: bool = False,
    further: tuple[Output, ...] = (),
    in_force: tuple[Column, ...] = (),
    chained: bool = False,
    counts_event_time: str | None = None,
    watermark: bool = False,
    unfit: Iterable[str] = (),
    source: Mapping[str, str] | None = None,
) -> Layout:
    """Derive the layout.

    Parameters
    ----------
    policy : roles
    columns : SQL type by column of the source's query, in order, such as ``{"age": "INT NOT NULL"}``
    where : place that an error names, such as the path of the configuration
    noise : whether numeric quasi-identifiers are noised; the layout's policy has a step for each noised one
    representative : whether a number is published as one value, and not as an interval
    further : the algorithm's own outputs
    in_force : columns of the audit log that state the privacy models, equal in each row, before the generalization
    chained : whether the audit log has a hash chain
    counts_event_time : a field that depends on event time, which then must advance; None without one
    watermark : whether any column of the source has a watermark
    unfit : problems of the source that are already known
    source : texts for ``Layout.source``

    Raises
    ------
    ConfigError
        Lists every column without a role, role without a column, type that its role cannot have, duplicate column of a
        sink, missing or unfit step, and missing watermark.
    """
    found = {name: parse(text) for name, text in columns.items()}
    policy, stepless = fill_steps(policy, found, noise=noise)
    stepless += unfit_ends(policy, found)
    reader = Reader({name: found.get(name) for name in policy.roles}, neutralized=policy.neutralize_formulas)
    quasi_identifiers = tuple(reader.quasi_identifier(attribute) for attribute in policy.quasi_identifiers)
    sensitive = tuple(reader.member("sensitive", name) for name in policy.sensitive)
    noised = tuple(reader.noised(attribute) for attribute in policy.noised)
    passthrough = tuple(reader.member("passthrough", name) for name in policy.passthrough)
    subject = None if policy.subject is None else reader.subject(policy.subject)
    event_time = None if policy.event_time is None else reader.event_time(policy.event_time)
    reference = None if policy.reference is None else reader.reference(policy.reference)
    mark = None
    if policy.event_time is not None:
        if policy.event_time_limit is not None:
            mark = reader.watermark(policy.event_time)
        if counts_event_time is not None:
            timeless = reader.without_watermark(policy.event_time, counts_event_time, elsewhere=watermark)
            reader.problems.extend(timeless)
            timed = [name for name in (policy.event_time, *found) if name in found and found[name].rowtime]
            if mark is None and timed:
                mark = reader.marks(timed[0])

    types = {name: found.get(name, _UNKNOWN) for name in policy.roles}
    generalization, interval_types = _generalization(policy, types, representative=representative)
    members = [types[name] for name in policy.members]
    kinds = [member_kind(policy.roles[name], types[name]) for name in policy.members]
    carried: tuple[tuple[str, Plain], ...] = tuple((f"m{i}", _PLAIN[kind]) for i, kind in enumerate(kinds))
    released = [
        _back(name, sql, kind, f"m{i}")
        for i, (name, sql, kind) in enumerate(zip(policy.members, members, kinds, strict=True))
    ]
    if policy.pseudonym is not None:
        released.append(Column(policy.pseudonym.column, "STRING", f"m{len(carried)}"))
        carried = (*carried, (f"m{len(carried)}", "STRING"))
    sinks = {"released": (*generalization, *released), **records(policy, types, in_force, generalization)}
    if chained:
        sinks["audit"] += CHAINED
    sinks |= further_records(further, policy, types)
    problems = [*unfit, *_unmatched(policy, found), *reader.problems, *stepless]
    problems += [problem for sink in sinks for problem in _repeated(sink, sinks[sink])]
    if problems:
        raise ConfigError(where, problems)
    diversity: list[tuple[str, Plain]] = [(f"d{i}", "LONG") for i in range(len(policy.sensitive))]
    return Layout(
        policy=policy,
        arguments=tuple(reader.arguments),
        asked=tuple(reader.asked),
        quasi_identifiers=quasi_identifiers,
        sensitive=sensitive,
        noised=noised,
        passthrough=passthrough,
        subject=subject,
        event_time=event_time,
        reference=reference,
        watermark=mark,
        published={name: sql.text for name, sql in zip(policy.members, members, strict=True)},
        subject_type=None if policy.subject is None else types[policy.subject].text,
        integers=tuple(types[attribute.name].name in INTEGERS for attribute in policy.numeric),
        sinks=sinks,
        release_types=(
            ("release_id", "LONG"),
            ("shard", "INT"),
            ("event_ms", "LONG"),
            ("kind", "STRING"),
            ("subjects", "LONG"),
            ("tuples", "LONG"),
            *diversity,
            ("loss", "DOUBLE"),
            *noise_types(policy),
            *interval_types,
            *(cast(tuple[tuple[str, Plain], ...], tuple(CHAIN.items())) if chained else ()),
        ),
        member_types=carried or (("m0", "BOOLEAN"),),
        suppressed_types=(("reason", "STRING"), ("seq", "LONG"), ("event_ms", "LONG")),
        rejected_types=(("col", "STRING"), ("reason", "STRING"), ("event_ms", "LONG"), ("reference", "STRING")),
        forgotten_types=(
            ("code", "STRING"),
            ("shard", "INT"),
            ("event_ms", "LONG"),
            ("clock_ms", "LONG"),
            ("tuples", "LONG"),
        ),
        source=dict(source or {}),
        extremes={
            attribute.name: ends
            for attribute in policy.numeric
            if (noise or attribute.ends is not None)
            and attribute.domain is None
            and (ends := extremes(types[attribute.name])) is not None
        },
    )


def _generalization(
    policy: Policy, types: Mapping[str, SqlType], *, representative: bool
) -> tuple[list[Column], list[tuple[str, Plain]]]:
    """Return the published columns of the quasi-identifiers, and the operator's columns behind them."""
    columns: list[Column] = []
    rows: list[tuple[str, Plain]] = []
    for i, attribute in enumerate(policy.quasi_identifiers):
        if not isinstance(attribute, Numeric):
            rows.append((f"q{i}", "STRING"))
            columns.append(Column(attribute.name, "STRING", f"q{i}"))
            continue
        if representative:
            # The mean of whole numbers may be fractional, so the column has the type DOUBLE.
            rows.append((f"q{i}", "DOUBLE"))
            columns.append(Column(attribute.name, "DOUBLE", f"q{i}"))
            continue
        sql = types[attribute.name]
        plain: Plain = "LONG" if sql.name in INTEGERS else "DOUBLE"
        shown = "DOUBLE" if sql.name in TEXTS else sql.text
        for end in ("min", "max"):
            row = f"q{i}_{end}"
            rows.append((row, plain))
            columns.append(Column(f"{attribute.name}_{end}", shown, _cast(row, SQL[plain], shown)))
    return columns, rows


def _back(name: str, sql: SqlType, kind: Kind, row: str) -> Column:
    """Return a column that is published unchanged, converted back to its own type."""
    if kind == "timestamp":
        # This form is independent of the session's time zone, and exact in all years.
        stamp = f"TIMESTAMPADD(MILLISECOND, {row}, TIMESTAMP '1970-01-01 00:00:00.000')"
        return Column(name, sql.text, _cast(stamp, "TIMESTAMP(3)", sql.text))
    if sql.name == "DECIMAL" and sql.precision == sql.scale:
        # Such a type has no digit before the point, and Flink takes the zero in its own '0.5' for an overflow.
        row = f"REPLACE({row}, '0.', '.')"
    return Column(name, sql.text, _cast(row, SQL[_PLAIN[kind]], sql.text))


def _cast(row: str, has: str, wanted: str) -> str:
    return row if has == wanted else f"CAST({row} AS {wanted})"


def _unmatched(policy: Policy, found: Mapping[str, SqlType]) -> Iterator[str]:
    """Yield roles whose column the source lacks, and columns of the source without a role.

    A misspelled role is an error of the configuration, so its message suggests the intended column, and that column is
    no problem of its own.
    """
    roles = policy.roles
    spare = [name for name in found if name not in roles]
    intended: set[str] = set()
    for name in (name for name in roles if name not in found):
        role = "quasi_identifiers" if roles[name] == "quasi_identifier" else roles[name]
        lower = {column.lower(): column for column in spare}
        close = [lower[match] for match in get_close_matches(name.lower(), lower, 1)]
        intended.update(close)
        question = f"did you mean {close[0]!r}? It" if close else "it"
        yield f"policy.{role}: the source has no column {name!r}; {question} has {', '.join(found)}"
    for name in spare:
        if name not in intended:
            yield f"policy: the source's column {name!r} has no role; give it one of {_ROLES}"


def _repeated(sink: str, columns: tuple[Column, ...]) -> Iterator[str]:
    for name, times in Counter(column.name for column in columns).items():
        if times > 1:
            yield f"sinks.{sink}: would have {times} columns {name!r}; rename a column in source.query"
