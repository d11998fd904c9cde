"""Catalogs of Flink that a configuration declares, and their tables as source and sinks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from crenel.anonymity.model.explain import listed, suggestion
from crenel.operators.output_columns import RECORD_OUTPUTS

TABLE, PARTITIONED_BY, DAY_COLUMN = "table", "partitioned_by", "day_column"
"""Options of a sink into a table of a catalog, beside those of a table that Crenel creates."""

IN_MEMORY = "generic_in_memory"
"""Type of Flink's own catalog, which keeps no table beyond a job."""

BUILT_IN = "default_catalog"
"""Flink's own name for the catalog of each job."""

JDBC = "jdbc"
"""Type of the catalog of a database."""

_DATED = (*RECORD_OUTPUTS, "forgotten")
"""Outputs with an event time."""

_FORM = "catalog.database.table"


@dataclass(frozen=True)
class CatalogTable:
    """A table of a catalog that the configuration declares.

    Attributes
    ----------
    catalog, database, name : parts of its path
    kind : type of the catalog, such as ``paimon``
    settings : options of the catalog without its type, which may hold a secret
    options : of the table, if Crenel creates it
    partitioned_by : columns by which the table is partitioned
    day_column : name of a column with the day of ``event_time``, which Crenel adds; None: there is none
    """

    catalog: str
    database: str
    name: str
    kind: str
    settings: Mapping[str, str] = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    partitioned_by: tuple[str, ...] = ()
    day_column: str | None = None

    def __str__(self) -> str:
        return f"{self.catalog}.{self.database}.{self.name}"

    @property
    def as_connector(self) -> dict[str, str]:
        """Options as of a table with a connector, by which delivery, places and secrets are judged."""
        return {**self.settings, **self.options, "connector": self.kind, TABLE: str(self)}


def is_table(options: Mapping[str, str]) -> bool:
    """Return whether a sink's options name a table of a catalog; other connectors have options of that name too."""
    return TABLE in options and "connector" not in options


def find_table_problems(
    catalogs: Mapping[str, Mapping[str, str]],
    named: Mapping[str, str],
    sinks: Mapping[str, Mapping[str, str]],
    *,
    has_event_time: bool,
) -> Iterator[str]:
    """Yield problems of catalogs, and of tables that a configuration names.

    Parameters
    ----------
    catalogs : options by name
    named : paths of tables by field
    sinks : options of the sinks that are tables of catalogs, by output
    has_event_time : whether the policy names a column of event time
    """
    if BUILT_IN in catalogs:
        yield f"catalogs.{BUILT_IN}: is the name of Flink's own catalog; choose another"
    for name in (name for name, options in catalogs.items() if options["type"] == IN_MEMORY):
        yield (
            f"catalogs.{name}.type: a catalog of the type {IN_MEMORY!r} has no table when a job starts, and keeps "
            "none; remove it, declare the source in source.ddl, and give each sink the options of a connector, such as "
            "{connector: filesystem, path: ..., format: csv}"
        )
    for place, path in {
        **named,
        **{f"sinks.{name}.{TABLE}": options[TABLE] for name, options in sinks.items()},
    }.items():
        parts = split_path(path)
        if parts is None:
            yield f"{place}: is not of the form {_FORM}; such as lake.clinic.visits"
        elif parts[0] not in catalogs:
            known = f"it has {listed(list(catalogs))}" if catalogs else "there is none"
            yield (
                f"{place}: 'catalogs' has no {parts[0]!r}{suggestion(parts[0], list(catalogs))}, {known}; declare it, "
                "such as catalogs: {lake: {type: paimon, warehouse: file:///shared/lake}}"
            )
    for name, options in sinks.items():
        if DAY_COLUMN in options and name not in _DATED:
            yield f"sinks.{name}.{DAY_COLUMN}: its rows have no event time; remove it"
        elif DAY_COLUMN in options and not has_event_time:
            yield f"sinks.{name}.{DAY_COLUMN}: is the day of policy.event_time, which names no column; name one"


def table_of(
    catalogs: Mapping[str, Mapping[str, str]], path: str, options: Mapping[str, str] | None = None
) -> CatalogTable:
    """Return a table whose path has no problem; ``options``: of a sink."""
    parts = split_path(path)
    if parts is None:
        raise ValueError(f"is not of the form {_FORM}")
    of, given = dict(catalogs[parts[0]]), dict(options or {})
    given.pop(TABLE, None)
    columns = given.pop(PARTITIONED_BY, "")
    day = given.pop(DAY_COLUMN, None)
    kind = of.pop("type")
    partitions = tuple(name for part in columns.split(",") if (name := part.strip()))
    return CatalogTable(*parts, kind, of, given, partitions, day)


def split_path(path: str) -> tuple[str, str, str] | None:
    """Return catalog, database and name of a table; None where the path does not have these three parts."""
    parts = path.split(".")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and all(parts) else None
