"""A table that a configuration creates, as Flink has resolved it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

SOURCE, FORGET = "source", "forget"


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


def column_names(tables: StreamTableEnvironment) -> list[str]:
    """Of its columns, in order."""
    names: list[str] = tables.from_path(SOURCE).get_schema().get_field_names()
    return names
