"""Columns of a job in SQL, which its plan, its configuration and the source's columns determine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.flink_settings import MAX_PARALLELISM
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.event_time import event_time_problems
from crenel.jobs.pipeline.packing import unpacked
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
from crenel.jobs.pipeline.sql_expressions import argument, cast, instant
from crenel.operators.column_types import INSTANTS, NESTED, TEXTS, ColumnType, parse
from crenel.operators.encode.columns import Read
from crenel.operators.output_columns import SQL, OutputColumn, in_rows
from crenel.operators.plan import AnonymizationPlan, plan_of, repeated
from crenel.operators.shards.keys import shard_keys

_AS_BYTES = ("packed", "list")
"""Forms of columns that pass through the operator as bytes."""


@dataclass(frozen=True)
class SourceColumns:
    """Properties of a source that determine a layout.

    Attributes
    ----------
    types : SQL type by column of the source's query, in order, such as ``{"age": "INT NOT NULL"}``
    has_watermark : whether any column of the source has a watermark
    problems : problems of the source that are already known
    texts : the query, and the computed columns of the source, for the fingerprint of the state
    """

    types: Mapping[str, str]
    has_watermark: bool = False
    problems: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """The columns between the source and the sinks: a plan, and its SQL.

    The operator's rows use internal column names, so that user-defined names cannot clash with them.

    Attributes
    ----------
    plan : of the anonymization, with the keys of its shards
    arguments : SQL expressions of the arguments of encode
    release : columns of a release in the operator's rows
    members : columns of its members, which follow as arrays
    sinks : columns of ``released``, ``audit``, ``suppressed``, ``rejected`` and ``forgotten``, and those of the
        algorithm's further outputs; those of ``released`` read a release joined with its members
    """

    plan: AnonymizationPlan
    arguments: tuple[str, ...]
    release: tuple[OutputColumn, ...]
    members: tuple[OutputColumn, ...]
    sinks: dict[str, tuple[Column, ...]]

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
        Lists the problems of the plan and of the source, every duplicate column of a sink, and a missing watermark.
    """
    columns = {name: parse(text) for name, text in source.types.items()}
    plan, problems = plan_of(
        config,
        columns,
        outputs=config.sinks,
        null_text=written_null(config.sinks["released"]),
        source=source.texts,
        epoch=config.epoch,
    )
    plan = replace(plan, keys=shard_keys(config.shards.count, MAX_PARALLELISM))
    own = dict([*_generalized(plan), *_members(plan)])
    event_time = config.policy.event_time
    timestamps = event_time is not None and plan.types[event_time].name == "TIMESTAMP_LTZ"
    sinks = sink_columns(config, plan, own, timestamps=timestamps)
    problems = [*source.problems, *problems, *event_time_problems(config, columns, elsewhere=source.has_watermark)]
    problems += [problem for sink in sinks for problem in repeated(sink, (column.name for column in sinks[sink]))]
    problems += _unfit_for_carried(
        config, {of.name: plan.types[of.name] for of in plan.members if of.form in _AS_BYTES}
    )
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
            problems += repeated(name, (column.name for column in sinks[name]))
    if problems:
        raise ConfigError(where, problems)
    return Layout(
        plan=plan,
        arguments=tuple(argument(of, columns[of[0]]) for of in plan.arguments),
        release=plan.release_row(chained=config.audit_chain is not None),
        members=in_rows(plan.member_columns),
        sinks=sinks,
    )


def _generalized(plan: AnonymizationPlan) -> Iterator[tuple[OutputColumn, Column]]:
    """Yield the published columns of the quasi-identifiers in SQL; ends have the type of their column."""
    for column in plan.generalization.columns:
        attribute = plan.policy.attributes[column.position or 0]
        kind, is_end = SQL[column.kind], plan.generalization.is_interval(attribute)
        sql = plan.types.get(attribute.name, parse(kind))
        if isinstance(attribute, Numeric) and sql.name in INSTANTS:
            # Flink's own CAST rounds towards 1970. Ends are multiples of the unit already.
            rounded = column.row if is_end else f"FLOOR({column.row} / {sql.unit}) * {sql.unit}"
            yield column, Column(column.name, sql.text, instant(f"CAST({rounded} AS BIGINT)", sql))
            continue
        shown = sql.text if is_end and sql.name not in TEXTS else kind
        yield column, Column(column.name, shown, cast(column.row, kind, shown))


def _members(plan: AnonymizationPlan) -> Iterator[tuple[OutputColumn, Column]]:
    """Yield the columns with a value per member in SQL; the pseudonym, which comes last, is no column of the source."""
    reads = plan.members
    for number, column in enumerate(plan.member_columns):
        if number < len(reads):
            yield column, _back(reads[number], plan.types[reads[number].name], column)
        else:
            yield column, Column(column.name, SQL[column.kind], column.row)


def _back(read: Read, sql: ColumnType, column: OutputColumn) -> Column:
    """Return a column that is published unchanged, converted back to its own type."""
    if read.form == "time":
        return Column(read.name, sql.text, instant(column.row, sql))
    row = column.row
    if read.form in _AS_BYTES:
        return Column(read.name, sql.text, unpacked(row, sql))
    if sql.name == "DECIMAL" and sql.precision == sql.scale:
        # Such a type has no digit before the point, and Flink takes the zero in its own '0.5' for an overflow.
        row = f"REPLACE({row}, '0.', '.')"
    return Column(read.name, sql.text, cast(row, SQL[column.kind], sql.text))


def _unfit_for_carried(config: Config, types: Mapping[str, ColumnType]) -> Iterator[str]:
    """Yield problems of columns that pass through as bytes, with the sink that shall hold them and with the chain."""
    for name, sql in types.items():
        column = f"policy.{config.policy.roles[name]}: column {name!r} has the type {sql.text}"
        if sql.name in NESTED and has_no_arrays(config.sinks.get("released", {})):
            yield (
                f"{column}, which the sink of released does not hold; write JSON, Avro or Parquet, or make it text or "
                "columns in the source's query"
            )
        if config.audit_chain:
            yield (
                f"{column}, and audit_chain.key hashes each published value as text; drop the column, make it text in "
                "the source's query, or leave audit_chain.key out"
            )
