"""Source of a job: the tables that a configuration creates, as Flink has resolved them, and queries of them.

A sample file may replace the rows of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table
from pyflink.util.exceptions import JavaException

from crenel.anonymity.model.errors import ConfigError, InputError
from crenel.anonymity.model.explain import listed
from crenel.jobs.config.delivery import CHANGES
from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import file_uri
from crenel.jobs.config.source import ForgetSource, Source
from crenel.jobs.failure import why_refused
from crenel.jobs.pipeline.java_functions import register
from crenel.jobs.pipeline.sql_expressions import options_sql
from crenel.jobs.pipeline.sql_times import calls_instant, instant_function

SOURCE, FORGET = "source", "forget"
# Stack frames, which begin with a tab, are excluded: most planning errors have Calcite among them.
_OF_THE_PARSER = re.compile(
    r"^[^\t\n]*(?:SqlParser\w*Exception|org\.apache\.calcite|SQL validation failed)", re.MULTILINE
)
_PLACE = re.compile(r"line (\d+), column (\d+)")
_CHANGES = re.compile(r"doesn't support consuming [a-z, ]+ which is produced by node (?P<node>\w+)")
_SCAN = "TableSourceScan"

_GIVEN = "crenel_given_source"
_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_READ = (*dict.fromkeys(_FORMATS.values()), "raw")  # raw: any content of lines


class SampleError(InputError):
    """Error for a file that is no sample; the message names the field or the option and valid alternatives."""


@dataclass(frozen=True)
class SourceTable:
    """Properties of a source table beside the columns of a query.

    Attributes
    ----------
    options : of its connector, from the DDL; None where there is no such table, or it is a view
    computed : columns that the DDL computes, each with its expression
    watermark : whether one of its columns has a watermark
    """

    options: Mapping[str, str] | None
    computed: tuple[str, ...]
    watermark: bool


def create_table(tables: StreamTableEnvironment, field: str, read: Source | ForgetSource, name: str) -> None:
    """Execute the statement of a table that a job reads.

    Parameters
    ----------
    field : of the statement
    read : the statement, and the SELECT that reads the table
    name : of the table, ``SOURCE`` or ``FORGET``

    Raises
    ------
    ConfigError
        Flink cannot parse the statement, or it does not create the table.
    """
    before = set(tables.list_tables())
    register_times(tables, read)
    with parsing(field, read.varied):
        tables.execute_sql(read.ddl)
    created = set(tables.list_tables())
    # A query may read the table of a catalog instead.
    is_read = not read.query or re.search(rf"\b(?:FROM|JOIN|TABLE)\s+`?{name}\b`?(?!\s*\.)", read.query, re.IGNORECASE)
    if name not in created and is_read:
        instead = listed([repr(other) for other in sorted(created - before)])
        what = f"creates {instead} and not" if instead else "does not create"
        raise ConfigError(
            "it", [f"{field}: {what} the table {name!r}; write CREATE TEMPORARY TABLE {name} (...) WITH (...)"]
        )


def register_times(tables: StreamTableEnvironment, read: Source | ForgetSource) -> None:
    """Register the function of times of text if a statement of a source calls it."""
    if calls_instant(f"{read.ddl} {read.query or ''}"):
        register(tables, [instant_function()])


def source_table(tables: StreamTableEnvironment, name: str = SOURCE) -> SourceTable:
    """Look up the table in the current database, after its DDL has been executed."""
    place = get_gateway().jvm.org.apache.flink.table.catalog.ObjectIdentifier.of(
        tables.get_current_catalog(), tables.get_current_database(), name
    )
    found = tables._j_tenv.getCatalogManager().getTable(place)
    if not found.isPresent():
        return SourceTable(None, (), False)
    resolved = found.get().getResolvedTable()
    schema = resolved.getResolvedSchema()
    return SourceTable(
        options=dict(resolved.getOptions()) if resolved.getTableKind().name() == "TABLE" else None,
        computed=tuple(column.asSummaryString() for column in schema.getColumns() if not column.isPhysical()),
        watermark=not schema.getWatermarkSpecs().isEmpty()
        or any("*ROWTIME*" in column.asSummaryString() for column in schema.getColumns()),
    )


@contextmanager
def parsing(field: str, varied: frozenset[str]) -> Iterator[None]:
    """Name the field of a statement that Flink's parser refuses.

    The parser quotes the statement. A statement in ``varied`` may hold the value of a variable, such as a password, so
    the error states only the position.

    Raises
    ------
    ConfigError
        The parser refuses a statement that the block executes.
    """
    try:
        yield
    except (Py4JError, JavaException) as error:
        trace = getattr(error, "stack_trace", None) or str(error)
        if not _OF_THE_PARSER.search(trace):
            raise
        if field not in varied:
            raise ConfigError("source", [f"{field}: Flink cannot parse it: {why_refused(error)}"]) from None
        place = _PLACE.search(trace)
        where = f" at line {place[1]}, column {place[2]}" if place else ""
        raise ConfigError(
            "source",
            [
                f"{field}: Flink cannot parse it{where}; its message is withheld, because it may hold the value of a "
                "variable: look there for a missing comma or quote, with the variables replaced"
            ],
        ) from None


def read_options(tables: StreamTableEnvironment, config: Config) -> dict[str, Mapping[str, str]]:
    """Return the options of each table that a job reads, by its field; the tables have been created."""
    source, table = config.source, config.source.table
    names = {field: FORGET if field == "source.forget.ddl" else SOURCE for field in source.statements}
    options = {field: source_table(tables, name).options or {} for field, name in names.items()}
    return options if table is None else {source.field: table.as_connector} | options


@contextmanager
def with_setting(tables: StreamTableEnvironment, name: str, value: str, default: str) -> Iterator[None]:
    """Change a setting of a table environment within the block; ``default`` is Flink's own value of it."""
    settings = tables.get_config()
    before = settings.get(name, default)
    settings.set(name, value)
    try:
        yield
    finally:
        settings.set(name, before)


def column_names(tables: StreamTableEnvironment) -> list[str]:
    """Return the names of the source's columns, in order."""
    names: list[str] = tables.from_path(SOURCE).get_schema().get_field_names()
    return names


def column_types(table: Table) -> dict[str, str]:
    """Return the SQL type of each column of a table, in order, with the mark of a time attribute."""
    return {
        column.getName(): column.getDataType().getLogicalType().asSummaryString()
        for column in table._j_table.getResolvedSchema().getColumns()
    }


def append_only(tables: StreamTableEnvironment, query: str, field: str | None = None) -> DataStream:
    """Return the rows of a query as a stream; it may only append rows, because published ones cannot be retracted.

    ``field``: of the query, for errors; None: of the source.

    Raises
    ------
    ConfigError
        The query updates or deletes earlier rows.
    """
    try:
        return tables.to_data_stream(tables.sql_query(query))
    except (Py4JError, JavaException) as error:
        found = _CHANGES.search(getattr(error, "stack_trace", None) or str(error))
        if found is None:
            raise
        source = "source.ddl" if found["node"] == _SCAN else "source.query"
        raise ConfigError("it", [f"{field or source}: {CHANGES[source]}"]) from None


def read_from(tables: StreamTableEnvironment, source: Source, file: Path) -> str:
    """Return the DDL of a table ``source`` with the same columns and watermark, whose rows come from a file.

    A file source reads this file instead, in its own format. Other sources are read as CSV or JSON: by their own format
    if it is one of these or raw, else by the ending of the file.

    Raises
    ------
    SampleError
        The file does not exist, or its format is unknown.
    """
    if source.table is not None:
        raise SampleError("--sample: source.table names a table of a catalog, whose rows no file can replace")
    if not file.exists():
        raise SampleError(f"--sample: {file} is not there; give a file with rows as the source has them")
    register_times(tables, source)
    with parsing("source.ddl", source.varied):
        tables.execute_sql(source.ddl)
    options = source_table(tables).options
    if options is None:
        raise SampleError("--sample: source.ddl creates no table 'source' with a connector that could be replaced")
    changed = {"path": file_uri(file)}
    if options.get("connector") != "filesystem":
        changed |= {"connector": "filesystem", **_format(options, file)}
        kept = "EXCLUDING OPTIONS"
    else:
        kept = "OVERWRITING OPTIONS"
    settings = options_sql(changed)
    tables.execute_sql(f"CREATE TEMPORARY TABLE {_GIVEN} WITH ({settings}) LIKE {SOURCE} ({kept})")
    tables.execute_sql(f"DROP TEMPORARY TABLE {SOURCE}")
    return f"CREATE TEMPORARY TABLE {SOURCE} LIKE {_GIVEN}"


def _format(options: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return the options of the file's format, derived from those of another connector."""
    given = {name.removeprefix("value."): value for name, value in options.items()}
    name = given.get("format")
    if name not in _READ:
        name = _FORMATS.get(Path(file.name.removesuffix(".gz")).suffix.lower())  # Flink unpacks gzip
    if name is None:
        raise SampleError(
            f"--sample: {file.name} has an ending that is not known; one of {', '.join(_FORMATS)}, also with .gz"
        )
    return {"format": name, **{key: value for key, value in given.items() if key.startswith(f"{name}.")}}
