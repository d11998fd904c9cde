"""A table that a configuration creates, as Flink has resolved it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment
from pyflink.util.exceptions import JavaException

from jobs.config.file import ConfigError
from jobs.failure import why_refused

SOURCE, FORGET = "source", "forget"
# Not of its frames, which begin with a tab: most of what goes wrong in planning has Calcite among them.
_OF_THE_PARSER = re.compile(
    r"^[^\t\n]*(?:SqlParser\w*Exception|org\.apache\.calcite|SQL validation failed)", re.MULTILINE
)
_PLACE = re.compile(r"line (\d+), column (\d+)")


@dataclass(frozen=True)
class SourceTable:
    """What a job must know of it beside the columns of a query.

    Attributes
    ----------
    options : of its connector, as the DDL gives them; None where there is no such table, or it is a view
    computed : columns that the DDL computes, each with its expression
    watermark : whether one of its columns has a watermark
    """

    options: Mapping[str, str] | None
    computed: tuple[str, ...]
    watermark: bool


def source_table(tables: StreamTableEnvironment, name: str = SOURCE) -> SourceTable:
    """Look it up in the current database, once its DDL has been executed."""
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


def source_options(tables: StreamTableEnvironment, *, forget: bool) -> dict[str, Mapping[str, str]]:
    """Return the options of the tables that a job reads, by the field of their statement; ``forget``: that one too."""
    names = {"source.ddl": SOURCE} | ({"source.forget.ddl": FORGET} if forget else {})
    return {field: source_table(tables, name).options or {} for field, name in names.items()}


@contextmanager
def parsing(field: str, varied: frozenset[str]) -> Iterator[None]:
    """Name the field of a statement that Flink's parser refuses.

    The parser quotes the statement. Where that is one of ``varied``, the quotation may hold the value of a variable,
    such as a password, and only its place is told.

    Raises
    ------
    ConfigError
        The parser refuses what the block executes.
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


def column_names(tables: StreamTableEnvironment) -> list[str]:
    """Of its columns, in order."""
    names: list[str] = tables.from_path(SOURCE).get_schema().get_field_names()
    return names
