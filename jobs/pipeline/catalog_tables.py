"""Catalogs of a job, and their tables: the source, and sinks that exist or are created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table
from pyflink.util.exceptions import JavaException
from pyflink.util.java_utils import load_java_class

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.explain import listed, suggestion
from crenel.jobs.config.catalogs import DAY_COLUMN, JDBC, PARTITIONED_BY, TABLE, CatalogTable
from crenel.jobs.config.load import Config
from crenel.jobs.config.source import Watermark
from crenel.jobs.failure import why_refused
from crenel.jobs.pipeline.sink_columns import Column
from crenel.jobs.pipeline.source_table import column_types, with_setting
from crenel.jobs.pipeline.sql_expressions import options_sql, quote
from crenel.operators.column_types import parse

_STAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ")

_MISSING = "TO_TIMESTAMP_LTZ(-62167219200000, 3)"
"""Year 0 in SQL, in place of a missing event time, at which Flink would fail the job: it moves no watermark, and encode
rejects it as outside of the years 1 to 9999."""


def create_catalogs(tables: StreamTableEnvironment, config: Config) -> None:
    """Create the catalogs of a configuration.

    Raises
    ------
    ConfigError
        Flink cannot open a catalog.
    """
    if config.catalogs:
        _silence_hadoop()
    for name, options in config.catalogs.items():
        settings = options_sql(options)
        with _refusing(f"catalogs.{name}", "cannot be opened", config):
            tables.execute_sql(f"CREATE CATALOG {quote(name)} WITH ({settings})")


def _silence_hadoop() -> None:
    """Keep messages of Hadoop away from the output of this process, where Flink's client prints them."""
    logging = get_gateway().jvm.org.apache.logging.log4j
    with suppress(Py4JError, TypeError):  # another logging library
        logging.core.config.Configurator.setLevel("org.apache.hadoop", logging.Level.ERROR)


def table_path(table: CatalogTable) -> str:
    """Return the path of a table in SQL."""
    return ".".join(map(quote, (table.catalog, table.database, table.name)))


def read_rows(
    tables: StreamTableEnvironment, config: Config, field: str, table: CatalogTable, watermark: Watermark | None = None
) -> Table:
    """Return the rows that a table has when the job starts.

    Parameters
    ----------
    field : that names the table
    watermark : of its rows; None: that of the table, if it has one

    Raises
    ------
    ConfigError
        The table does not exist, or has no such column of event time.
    """
    _require(tables, field, table)
    with _refusing(field, "cannot be read", config), _bounded(tables):
        rows = tables.sql_query(f"SELECT * FROM {table_path(table)}")
    return rows if watermark is None else _with_watermark(tables, rows, watermark)


def plan_sink(
    tables: StreamTableEnvironment,
    config: Config,
    output: str,
    table: CatalogTable,
    columns: Sequence[Column],
    *,
    creates: bool,
) -> str:
    """Return the path of the table of an output, with the columns to write; a missing table is created.

    Parameters
    ----------
    creates : whether a missing table is created in its catalog, and not only in this environment, to plan a job

    Raises
    ------
    ConfigError
        The table exists and does not fit the columns, or its database does not exist.
    """
    field = f"sinks.{output}.{TABLE}"
    is_first = _lacks_default(tables, table)
    found = None if is_first else _look_up(tables, field, table)
    names = [column.name for column in columns]
    path, listed_names = table_path(table), ", ".join(map(quote, names))
    if found is not None:
        if problems := [*_unfit(tables, f"sinks.{output}", table, columns, found.getResolvedTable())]:
            raise ConfigError("it", problems)
        return f"{path} ({listed_names})"
    if absent := [name for name in table.partitioned_by if name not in names]:
        raise _refusal(
            f"sinks.{output}.{PARTITIONED_BY}: the job writes no column {absent[0]!r}"
            f"{suggestion(absent[0], names)}; one of {listed(names)}, or name the column of days by "
            f"sinks.{output}.{DAY_COLUMN}"
        )
    if table.kind == JDBC:
        raise _refusal(
            f"{field}: {table} does not exist, and Flink creates no tables in databases; create it in the database"
        )
    declared = ", ".join(column.declaration for column in columns)
    if not creates:
        name = quote(f"crenel_planned_{output}")
        tables.execute_sql(f"CREATE TEMPORARY TABLE {name} ({declared}) WITH ('connector' = 'blackhole')")
        return f"{name} ({listed_names})"
    partitions = f" PARTITIONED BY ({', '.join(map(quote, table.partitioned_by))})" if table.partitioned_by else ""
    settings = options_sql(table.options)
    options = f" WITH ({settings})" if settings else ""
    with _refusing(field, "cannot be created", config):
        if is_first:
            tables.execute_sql(f"CREATE DATABASE {quote(table.catalog)}.{quote(table.database)}")
        tables.execute_sql(f"CREATE TABLE {path} ({declared}){partitions}{options}")
    return f"{path} ({listed_names})"


def _require(tables: StreamTableEnvironment, field: str, table: CatalogTable) -> Any:
    found = _look_up(tables, field, table)
    if found is None:
        names = list(_catalog(tables, table).listTables(table.database))
        raise _refusal(
            f"{field}: the database {table.database!r} of the catalog {table.catalog!r} has no table "
            f"{table.name!r}{suggestion(table.name, names)}; {_present(names)}"
        )
    return found


def _lacks_default(tables: StreamTableEnvironment, table: CatalogTable) -> bool:
    """Return whether a table is for the default database of a catalog, which a new warehouse of Iceberg lacks."""
    catalog = _catalog(tables, table)
    return bool(catalog.getDefaultDatabase() == table.database and not catalog.databaseExists(table.database))


def _look_up(tables: StreamTableEnvironment, field: str, table: CatalogTable) -> Any:
    """Return the table of a catalog; None where the database has none of that name."""
    catalog = _catalog(tables, table)
    if not catalog.databaseExists(table.database):
        names = []
        with suppress(Py4JError):  # a warehouse of Iceberg that does not exist yet
            names = list(catalog.listDatabases())
        raise _refusal(
            f"{field}: the catalog {table.catalog!r} has no database {table.database!r}"
            f"{suggestion(table.database, names)}; {_present(names)}, or create it in Flink's SQL client: CREATE "
            f"DATABASE {table.catalog}.{table.database}"
        )
    place = get_gateway().jvm.org.apache.flink.table.catalog.ObjectIdentifier.of(
        table.catalog, table.database, table.name
    )
    found = tables._j_tenv.getCatalogManager().getTable(place)
    return found.get() if found.isPresent() else None


def _catalog(tables: StreamTableEnvironment, table: CatalogTable) -> Any:
    return tables._j_tenv.getCatalog(table.catalog).get()


def _present(names: Sequence[str]) -> str:
    return f"it has {listed(sorted(names))}" if names else "it has none"


def _unfit(
    tables: StreamTableEnvironment, field: str, table: CatalogTable, columns: Sequence[Column], resolved: Any
) -> Iterator[str]:
    """Yield the reasons why an existing table cannot hold the rows of an output."""
    place, schema = f"{field}.{TABLE}", resolved.getResolvedSchema()
    other = "name another table, which Crenel creates if it does not exist"
    if schema.getPrimaryKey().isPresent():
        key = listed(list(schema.getPrimaryKey().get().getColumns()))
        yield (
            f"{place}: {table} has the primary key {key}, so a record would replace an earlier one with the same key; "
            f"{other}, or create this one without a primary key"
        )
    present = {str(column.getName()): column.getDataType().getLogicalType() for column in schema.getColumns()}
    casts = get_gateway().jvm.org.apache.flink.table.types.logical.utils.LogicalTypeCasts
    types = tables._j_tenv.getCatalogManager().getDataTypeFactory()
    for column in columns:
        if column.name not in present:
            yield (
                f"{place}: {table} has no column {column.name!r}{suggestion(column.name, list(present))}; add it as "
                f"{column.declaration} (ALTER TABLE ... ADD), or {other}"
            )
            continue
        kind = present[column.name]
        if not casts.supportsImplicitCast(types.createLogicalType(column.sql_type).copy(kind.isNullable()), kind):
            yield (
                f"{place}: the column {column.name!r} of {table} has the type {kind.asSummaryString()}, and the job "
                f"writes {column.sql_type}; change it (ALTER TABLE ... MODIFY), or {other}"
            )
        elif not kind.isNullable():
            yield (
                f"{place}: the column {column.name!r} of {table} is NOT NULL, and the job may write NULL; drop that "
                f"constraint, or {other}"
            )
    written = {column.name for column in columns}
    for name, kind in present.items():
        if name not in written and not kind.isNullable():
            yield f"{place}: the column {name!r} of {table} is NOT NULL, and the job does not write it; {other}"
    partitions = [str(key) for key in resolved.getPartitionKeys()]
    if table.partitioned_by and partitions != list(table.partitioned_by):
        yield (
            f"{field}.{PARTITIONED_BY}: {table} is partitioned by {listed(partitions) or 'no column'}; state that, "
            f"leave it out, or {other}"
        )


def _with_watermark(tables: StreamTableEnvironment, rows: Table, watermark: Watermark) -> Table:
    """Return rows with a watermark behind a column, which is converted to a TIMESTAMP_LTZ(3)."""
    types = {name: parse(kind) for name, kind in column_types(rows).items()}
    kind, name = types.get(watermark.column), quote(watermark.column)
    if kind is None:
        raise _refusal(
            f"source.watermark.column: the table has no column {watermark.column!r}"
            f"{suggestion(watermark.column, list(types))}; it has {listed(list(types))}"
        )
    if kind.name not in (*_STAMPS, "BIGINT"):
        raise _refusal(
            f"source.watermark.column: {watermark.column!r} has the type {kind.text}; name a timestamp, or "
            "BIGINT (epoch milliseconds)"
        )
    stamp = f"TO_TIMESTAMP_LTZ({name}, 3)" if kind.name == "BIGINT" else f"CAST({name} AS TIMESTAMP_LTZ(3))"
    stamp = f"COALESCE({stamp}, {_MISSING})"
    selected = (f"{stamp} AS {name}" if column == watermark.column else quote(column) for column in types)
    plain = tables.sql_query(f"SELECT {', '.join(selected)} FROM {rows}")
    # A view cannot declare a watermark, and a temporary table like that of a catalog would need its connector's own
    # options. Rows of a stream in Flink's internal form cost no conversion.
    internal = plain._j_table.getResolvedSchema().toPhysicalRowDataType()
    internal = internal.bridgedTo(load_java_class("org.apache.flink.table.data.RowData"))
    stream = tables._j_tenv.toDataStream(plain._j_table, internal)
    behind = f"{name} - {_interval(watermark.delay)}"
    declared = get_gateway().jvm.org.apache.flink.table.api.Schema.newBuilder().watermark(watermark.column, behind)
    return Table(tables._j_tenv.fromDataStream(stream, declared.build()), tables)


def _interval(milliseconds: int) -> str:
    """Return an interval in SQL, whose seconds alone would have at most two digits."""
    seconds, fraction = divmod(milliseconds, 1000)
    (minutes, second), (days, rest) = divmod(seconds, 60), divmod(seconds, 86_400)
    return f"INTERVAL '{days} {rest // 3600:02}:{minutes % 60:02}:{second:02}.{fraction:03}' DAY TO SECOND"


def _bounded(tables: StreamTableEnvironment) -> AbstractContextManager[None]:
    """Have tables that are parsed in the block end with the rows that they have when the job starts.

    A table of Paimon is read for ever, unless the environment is in batch mode at the time when the table is parsed; no
    option of the table says so. The job itself stays a streaming job: Flink reads its own mode when it plans a job.
    """
    return with_setting(tables, "execution.runtime-mode", "BATCH", "STREAMING")


def _refusal(problem: str) -> ConfigError:
    return ConfigError("it", [problem])


@contextmanager
def _refusing(field: str, what: str, config: Config) -> Iterator[None]:
    """Name the field of a statement about a catalog that Flink refuses."""
    try:
        yield
    except (Py4JError, JavaException) as error:
        raise _refusal(f"{field}: {what}: {why_refused(error, config)}") from None
