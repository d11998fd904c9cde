"""Derivation of the arguments of encode and the columns of all sinks, from a configuration and the source's columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import isclose
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from crenel.anonymity.model.attributes import Numeric, Presence, QuasiIdentifier
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.jobs.config.flink_settings import MAX_PARALLELISM
from crenel.jobs.config.formats import unfit_times
from crenel.jobs.config.load import Config, ConfigError
from crenel.jobs.pipeline.encoder_arguments import ArgumentForm, Reader, extremes
from crenel.jobs.pipeline.nested import first_field
from crenel.jobs.pipeline.packing import NESTED, unpacked
from crenel.jobs.pipeline.sink_columns import (
    Column,
    day_column,
    has_no_arrays,
    nested_columns,
    released_paths,
    row_sql,
    sink_columns,
    written_null,
)
from crenel.jobs.pipeline.sql_types import INSTANTS, INTEGERS, TEXTS, SqlType, parse
from crenel.operators.encode.columns import Read, members_schema
from crenel.operators.encode.encoder import EncodePlan
from crenel.operators.output_columns import (
    CHAIN,
    SQL,
    Generalization,
    OutputColumn,
    in_rows,
    member_columns,
    release_columns,
)
from crenel.operators.shards.keys import shard_keys

AnyNumeric = TypeVar("AnyNumeric", bound=Numeric)

INTEGER_STEP = 1.0
"""Step of an integer column without a configured step."""

_CARRIED = ("bytes", "array")
"""Forms of columns that pass through the operator as bytes."""

_ROLES = "quasi_identifiers, sensitive, noised, passthrough, subject, event_time, reference or drop"
_UNKNOWN = SqlType("STRING", "STRING")
"""Placeholder type for a column that the source lacks, until the error is raised."""

_LABEL = SqlType("STRING", "STRING")
"""Type of a generalized column, whatever the type of its values is."""


@dataclass(frozen=True)
class SourceColumns:
    """Properties of a source that determine a layout.

    Attributes
    ----------
    types : SQL type by column of the source's query, in order, such as ``{"age": "INT NOT NULL"}``
    has_watermark : whether any column of the source has a watermark
    problems : problems of the source that are already known
    texts : the query, and the computed columns of the source, for ``crenel.jobs.pipeline.digests.stored_under``
    limits : as of ``SqlType``, by column, where a column of a program holds fewer values than its SQL type
    """

    types: Mapping[str, str]
    has_watermark: bool = False
    problems: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """The columns between the source and the sinks.

    The operator's rows use internal column names, so that user-defined names cannot clash with them.

    Attributes
    ----------
    encode : plan of encode for ``arguments``; its policy has the noise steps that follow from the columns' types
    arguments : SQL expressions of the arguments of encode
    argument_forms : column and form of each argument; None where it has no ``Form``
    source : texts of the source, as of ``SourceColumns``
    published : SQL type of each column with a published value of each record
    subject_type : SQL type of the subject; None where there is none
    generalization : published form of the quasi-identifiers
    release : columns of a release in the operator's rows
    members : columns of its members, which follow as arrays
    sinks : columns of ``released``, ``audit``, ``suppressed``, ``rejected`` and ``forgotten``, and those of the
        algorithm's further outputs; those of ``released`` read a release joined with its members
    """

    encode: EncodePlan
    arguments: tuple[str, ...]
    argument_forms: tuple[ArgumentForm | None, ...]
    source: Mapping[str, str]
    published: dict[str, str]
    subject_type: str | None
    generalization: Generalization
    release: tuple[OutputColumn, ...]
    members: tuple[OutputColumn, ...]
    sinks: dict[str, tuple[Column, ...]]

    @property
    def policy(self) -> Policy:
        """Roles of the source's columns; with noise steps, where noise is configured."""
        return self.encode.policy

    @property
    def members_schema(self) -> pa.Schema:
        """Schema of ``Block.members``."""
        return members_schema(self.encode.sensitive + self.encode.noised + self.encode.passthrough)

    @property
    def release_sql(self) -> str:
        """The SQL type of a release."""
        return self.release_type(with_members=True)

    def release_type(self, *, with_members: bool) -> str:
        """Return the SQL type of a release; ``with_members``: with the columns of its members."""
        columns = row_sql(self.release, self.members if with_members else ())
        return f"ROW<{', '.join(f'{name} {kind}' for name, kind in columns.items())}>"


def layout(config: Config, source: SourceColumns, where: Path | str = "source") -> Layout:
    """Derive the layout.

    Parameters
    ----------
    where : place that an error names, such as the path of the configuration

    Raises
    ------
    ConfigError
        Lists every column without a role, role without a column, type that its role cannot have, duplicate column of a
        sink, missing or unfit step, and missing watermark.
    """
    found = {name: replace(parse(text), limits=source.limits.get(name)) for name, text in source.types.items()}
    noise = config.sampling_and_noise is not None
    policy, stepless = _fill_steps(config.policy, found, noise=noise)
    if config.algorithm.private:
        policy = _with_whole_steps(policy, found)
    reader = Reader(
        {name: found.get(name) for name in policy.roles},
        neutralized=policy.neutralize_formulas,
        normalization=policy.subject_normalization,
        arrays=dict(policy.arrays),
        generalized=policy.generalized,
    )
    encode = _encode_plan(config, policy, reader, found, elsewhere=source.has_watermark)
    types = {name: found.get(name, _UNKNOWN) for name in policy.roles}
    types |= {attribute.name: _LABEL for attribute in policy.generalized}
    generalization = Generalization(
        policy,
        config.algorithm.representative(config.parameters),
        integers=frozenset(
            attribute.name for attribute in policy.numeric if types[attribute.name].name in (*INTEGERS, *INSTANTS)
        ),
        extremes={
            attribute.name: ends
            for attribute in policy.numeric
            if (ends := extremes(types[attribute.name])) is not None
        },
    )
    reads = encode.sensitive + encode.noised + encode.passthrough
    members = member_columns(policy, members_schema(reads))
    own = [_back(read, types[read.name], column) for read, column in zip(reads, members, strict=False)]
    own += [Column(column.name, SQL[column.kind], column.row) for column in members[len(reads) :]]
    timestamps = policy.event_time is not None and types[policy.event_time].name == "TIMESTAMP_LTZ"
    sinks = sink_columns(config, _generalized(generalization, types), own, timestamps=timestamps)
    problems = [*source.problems, *_unmatched(policy, found), *reader.problems, *stepless, *_unfit_ends(policy, found)]
    problems += [problem for sink in sinks for problem in _repeated(sink, sinks[sink])]
    problems += _unfit_for_carried(config, {read.name: types[read.name] for read in reads if read.kind in _CARRIED})
    if config.is_nested and has_no_arrays(config.sinks.get("released", {})):
        problems.append(
            "shape: 'nested' needs ROW, which the sink of released does not hold; write JSON, Avro or Parquet"
        )
    if problems:
        raise ConfigError(where, problems)
    if config.is_nested:
        flat = sinks["released"]
        sinks["released"] = nested_columns(flat, released_paths(config, (column.name for column in flat)))
    for name, table in config.tables.items():
        if table.day_column is not None:
            sinks[name] = (*sinks[name], day_column(table.day_column))
            problems += _repeated(name, sinks[name])
    for name, options in config.sinks.items():
        problems += unfit_times(name, options, {of.name: of.sql_type for of in sinks.get(name, ())})
    if problems:
        raise ConfigError(where, problems)
    chain = () if config.audit_chain is None else CHAIN
    return Layout(
        encode=encode,
        arguments=tuple(reader.arguments),
        argument_forms=tuple(reader.argument_forms),
        source=source.texts,
        published={read.name: types[read.name].text for read in reads},
        subject_type=None if policy.subject is None else types[policy.subject].text,
        generalization=generalization,
        release=(*release_columns(policy), *generalization.columns, *chain),
        members=in_rows(members),
        sinks=sinks,
    )


def _encode_plan(
    config: Config, policy: Policy, reader: Reader, found: Mapping[str, SqlType], *, elsewhere: bool
) -> EncodePlan:
    """Return the plan of encode, whose arguments and problems ``reader`` collects.

    ``elsewhere``: whether any column of the source has a watermark.
    """
    plan = EncodePlan(
        policy=policy,
        shards=config.shards,
        keys=shard_keys(config.shards.count, MAX_PARALLELISM),
        quasi_identifiers=_quasi_identifiers(policy, reader),
        sensitive=tuple(reader.member("sensitive", name) for name in policy.sensitive),
        noised=tuple(reader.noised(attribute) for attribute in policy.noised),
        passthrough=tuple(reader.member("passthrough", name) for name in policy.passthrough),
        subject=None if policy.subject is None else reader.subject(policy.subject),
        event_time=None if policy.event_time is None else reader.event_time(policy.event_time),
        reference=None if policy.reference is None else reader.reference(policy.reference),
        subject_key=config.subject_key,
        null_text=written_null(config.sinks["released"]),
    )
    if policy.event_time is None:
        return plan
    mark = reader.watermark(policy.event_time) if policy.event_time_limit is not None else None
    if config.counts_event_time is not None:
        timed = [name for name in (policy.event_time, *found) if name in found and found[name].rowtime]
        reader.problems.extend(
            reader.without_watermark(
                policy.event_time, config.counts_event_time, is_selected=bool(timed), elsewhere=elsewhere
            )
        )
        if mark is None and timed:
            mark = reader.watermark_argument(timed[0])
    return replace(plan, watermark=mark)


def _quasi_identifiers(policy: Policy, reader: Reader) -> tuple[Read, ...]:
    """Return how each quasi-identifier is read; the presence of a number is read with the number."""
    found: dict[str, Read] = {}
    for of in policy.quasi_identifiers:
        found[of.name] = found[of.number] if isinstance(of, Presence) else reader.quasi_identifier(of)
    return tuple(found.values())


def _generalized(generalization: Generalization, types: Mapping[str, SqlType]) -> Iterator[Column]:
    """Yield the published columns of the quasi-identifiers; ends have the type of their column."""
    for column in generalization.columns:
        attribute = generalization.policy.quasi_identifiers[column.position or 0]
        kind, sql = SQL[column.kind], types.get(attribute.name, _UNKNOWN)
        if isinstance(attribute, Numeric) and sql.name in INSTANTS:
            # Flink's own CAST rounds towards 1970. Ends are multiples of the unit already.
            rounded = (
                column.row
                if generalization.is_interval(attribute)
                else f"FLOOR({column.row} / {sql.unit}) * {sql.unit}"
            )
            yield Column(column.name, sql.text, _instant(f"CAST({rounded} AS BIGINT)", sql))
            continue
        is_end = generalization.is_interval(attribute)
        shown = sql.text if is_end and sql.name not in TEXTS else kind
        yield Column(column.name, shown, _cast(column.row, kind, shown))


def _back(read: Read, sql: SqlType, column: OutputColumn) -> Column:
    """Return a column that is published unchanged, converted back to its own type."""
    if read.kind == "timestamp":
        return Column(read.name, sql.text, _instant(column.row, sql))
    row = column.row
    if read.kind in _CARRIED:
        return Column(read.name, sql.text, unpacked(row, sql))
    if sql.name == "DECIMAL" and sql.precision == sql.scale:
        # Such a type has no digit before the point, and Flink takes the zero in its own '0.5' for an overflow.
        row = f"REPLACE({row}, '0.', '.')"
    return Column(read.name, sql.text, _cast(row, SQL[column.kind], sql.text))


def _instant(milliseconds: str, sql: SqlType) -> str:
    """Return the day or the timestamp of a number of epoch milliseconds, rounded down to the type."""
    if sql.name == "TIMESTAMP_LTZ":
        return _cast(f"TO_TIMESTAMP_LTZ({milliseconds}, 3)", "TIMESTAMP_LTZ(3)", sql.text)
    # This form is independent of the session's time zone, and exact in all years. Flink 1.20 has no TIMESTAMPADD of
    # milliseconds.
    stamp = f"TIMESTAMP '1970-01-01 00:00:00.000' + INTERVAL '0.001' SECOND * {milliseconds}"
    return _cast(stamp, "TIMESTAMP(3)", sql.text)


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
            example = first_field(name, found[name])
            inner = "" if example is None else f", or roles to its fields, such as {example!r}"
            yield f"policy: the source's column {name!r} has no role; give it one of {_ROLES}{inner}"


def _repeated(sink: str, columns: tuple[Column, ...]) -> Iterator[str]:
    for name, times in Counter(column.name for column in columns).items():
        if times > 1:
            yield f"sinks.{sink}: would have {times} columns {name!r}; rename a column in source.query"


def _unfit_for_carried(config: Config, types: Mapping[str, SqlType]) -> Iterator[str]:
    """Yield problems of columns that pass through as bytes, with the sink that shall hold them and with the chain."""
    for name, sql in types.items():
        column = f"policy.{config.policy.roles[name]}: column {name!r} has the type {sql.text}"
        if sql.name in NESTED and has_no_arrays(config.sinks.get("released", {})):
            yield (
                f"{column}, which the sink of released does not hold; write JSON, Avro or Parquet, or make it text or "
                "columns in source.query"
            )
        if config.audit_chain:
            yield (
                f"{column}, and audit_chain.key hashes each published value as text; drop the column, make it text in "
                "source.query, or leave audit_chain.key out"
            )


def _fill_steps(policy: Policy, types: Mapping[str, SqlType], *, noise: bool) -> tuple[Policy, list[str]]:
    """Return the policy with a step for each noised attribute, and problems of configured steps.

    ``types`` are by column; missing columns are skipped. ``noise``: whether quasi-identifiers are noised as well.
    """
    problems: list[str] = []
    if not noise and not policy.noised:
        return policy, problems

    def filled(attribute: AnyNumeric, because: str) -> AnyNumeric:
        sql = types.get(attribute.name)
        if sql is None:
            return attribute
        where = f"{attribute.place}.step"
        if attribute.step is not None:
            problems.extend(f"{where}: {problem}" for problem in _unfit(attribute.step, sql))
        elif sql.name in INTEGERS:
            try:
                return replace(attribute, step=INTEGER_STEP)
            except PolicyError as error:
                problems.append(str(error))
        else:
            problems.append(
                f"{where}: is missing; {because} draws noise on a grid, and a column of type {sql.text} "
                "needs one: give the least difference that means something, such as 0.1"
            )
        return attribute

    attributes = tuple(
        filled(attribute, "sampling_and_noise") if noise and isinstance(attribute, Numeric) else attribute
        for attribute in policy.quasi_identifiers
    )
    noised = tuple(filled(attribute, "noise_within_release") for attribute in policy.noised)
    return replace(policy, quasi_identifiers=attributes, noised=noised), problems


def _with_whole_steps(policy: Policy, types: Mapping[str, SqlType]) -> Policy:
    """Return the policy with the step 1 for attributes of integer columns, at which declared intervals then end."""

    def whole(attribute: QuasiIdentifier) -> QuasiIdentifier:
        sql = types.get(attribute.name)
        if isinstance(attribute, Numeric) and sql is not None and sql.name in INTEGERS:
            with suppress(PolicyError):  # a domain of too many steps: intervals then end at the cuts
                return replace(attribute, step=INTEGER_STEP)
        return attribute

    return replace(policy, quasi_identifiers=tuple(map(whole, policy.quasi_identifiers)))


def _unfit_ends(policy: Policy, types: Mapping[str, SqlType]) -> list[str]:
    """Return problems with the grids of published ends (``Numeric.ends``), given the types by column."""
    problems: list[str] = []
    for attribute in policy.numeric:
        sql = types.get(attribute.name)
        if attribute.ends is not None and sql is not None:
            problems.extend(f"{attribute.place}.ends: {problem}" for problem in _unfit(attribute.ends, sql))
    return problems


def _unfit(step: float, sql: SqlType) -> list[str]:
    if sql.name in INTEGERS and step != round(step):
        return [f"is not a whole number, and the column's type is {sql.text}; give a whole number, or leave it out"]
    least = sql.unit
    if sql.name in INSTANTS and step % least:
        return [f"is finer than the column's type, {sql.text}; give a multiple of {least} ms, such as 1d"]
    parts = step * 10**sql.scale
    if sql.name == "DECIMAL" and not (round(parts) and isclose(parts, round(parts), rel_tol=1e-9)):
        return [f"is finer than the column's type, {sql.text}; give a multiple of {10**-sql.scale:.15g}"]
    return []
