"""Reader of sinks with any connector, through Flink on a mini-cluster in this process, up to their current end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from crenel.anonymity.model.attributes import SEPARATOR
from crenel.jobs.config.load import Config
from crenel.jobs.failure import why_failed, why_refused
from crenel.jobs.local.logs import JobError, flink_logs
from crenel.jobs.local.preload import start_java
from crenel.jobs.local.run import ignore_disconnects, local_settings, refused
from crenel.jobs.local.sink_files import OutputsError
from crenel.jobs.local.stop import temporary_folder

if TYPE_CHECKING:
    import pandas as pd

_KAFKA = {
    "scan.startup.mode": "earliest-offset",
    "scan.bounded.mode": "latest-offset",
    # Transactions of a failed run were aborted.
    "properties.isolation.level": "read_committed",
}


def read_tables(
    config: Config, sinks: Mapping[str, Sequence[str]], others: Mapping[str, Sequence[Config]] = MappingProxyType({})
) -> dict[str, dict[str, pa.ChunkedArray] | None]:
    """Return all rows of some sinks, each as text columns; None for an empty sink.

    Parameters
    ----------
    sinks : names of their columns, by sink
    others : further configurations that name the same place, by sink; their columns are among those in ``sinks``, and
        null in rows that lack them

    Raises
    ------
    OutputsError
        Names a sink that Flink cannot read, such as one with a missing connector.
    ConfigError, JobError, JavaError
        As ``crenel.jobs.local.run.run`` does.
    """
    with flink_logs() as logs, temporary_folder("crenel-") as folder:
        ignore_disconnects()
        java = start_java()
        from py4j.protocol import Py4JError
        from pyflink.util.exceptions import JavaException

        from crenel.jobs.pipeline.anonymizer import outputs
        from crenel.jobs.pipeline.build import read_layout
        from crenel.jobs.pipeline.catalog_tables import read_rows
        from crenel.jobs.pipeline.environment import local_environment
        from crenel.jobs.pipeline.java_functions import register
        from crenel.jobs.pipeline.nested import field_at
        from crenel.jobs.pipeline.sink_columns import released_paths
        from crenel.jobs.pipeline.sql_expressions import literal, options_sql, quote

        java.join()
        settings = {**local_settings(config.flink, None, folder), "table.local-time-zone": "UTC"}
        try:
            tables = local_environment(settings, checkpoints=False)
            layout = read_layout(tables, config)
            further = {
                id(other): read_layout(local_environment(settings, checkpoints=False), other)
                for using in others.values()
                for other in using
            }
        except (Py4JError, JavaException) as error:
            raise refused(error, config) from None
        plans = [layout.plan, *(other.plan for other in further.values())]
        booleans = {read.name for plan in plans for read in plan.members if plan.types[read.name].name == "BOOLEAN"}
        arrays = {name for plan in plans for name in plan.policy.arrays}
        layouts = {
            sink: {
                column.name: column
                for each in (layout, *(further[id(other)] for other in others.get(sink, ())))
                for column in outputs(each)[sink][0]
            }
            for sink in sinks
        }
        widest = max(map(len, sinks.values()), default=0)
        queries = []
        for sink, columns in sinks.items():
            options = config.sinks[sink]
            bounds = _KAFKA if options["connector"] == "kafka" else {}
            given = options_sql(options | bounds)
            declarations = ", ".join(column.declaration for column in layouts[sink].values())
            sets = {column.name for column in layouts[sink].values() if column.is_set}
            paths: dict[str, tuple[str, ...]] = {column: (column,) for column in columns}
            if config.is_nested and sink == "released":
                sets, paths = {attribute.name for attribute in config.policy.sets}, released_paths(config, columns)
            types = {column.name: column.sql_type for column in layouts[sink].values()}
            fields = {column: field_at(path, types) for column, path in paths.items()}
            register(tables, (function for _, function in fields.values() if function is not None))
            expressions = {column: expression for column, (expression, _) in fields.items()}
            forms = [
                f"JSON_STRING(CAST({expressions[column]} AS ARRAY<STRING>))"
                if column in arrays
                else f"ARRAY_JOIN({expressions[column]}, {literal(SEPARATOR)})"
                if column in sets
                else f"LOWER(CAST({expressions[column]} AS STRING))"  # as all formats write it
                if sink == "released" and column in booleans
                else f"CAST({expressions[column]} AS STRING)"
                for column in columns
            ]
            forms += ["CAST(NULL AS STRING)"] * (widest - len(forms))
            texts = ", ".join(f"{form} AS t{place}" for place, form in enumerate(forms))
            in_catalog = config.tables.get(sink)
            try:
                if in_catalog is None:
                    tables.execute_sql(f"CREATE TEMPORARY TABLE crenel_read_{sink} ({declarations}) WITH ({given})")
                else:
                    written = read_rows(tables, config, f"sinks.{sink}.table", in_catalog)
                    # Iceberg keeps a TIMESTAMP_LTZ(3) as one of six digits.
                    present = {str(name) for name in written.get_schema().get_field_names()}
                    kinds = (
                        f"CAST({quote(c.name) if c.name in present else 'NULL'} AS {c.sql_type}) AS {quote(c.name)}"
                        for c in layouts[sink].values()
                    )
                    typed = tables.sql_query(f"SELECT {', '.join(kinds)} FROM {written}")
                    tables.create_temporary_view(f"crenel_read_{sink}", typed)
                query = f"SELECT {literal(sink)} AS sink, {texts} FROM crenel_read_{sink}"
                tables.sql_query(query).explain()
            except (Py4JError, JavaException) as error:
                reason = " ".join(why_refused(error, config).split())
                place = f"sinks.{sink}.{'connector' if in_catalog is None else 'table'}"
                raise OutputsError(f"{place}: {options['connector']!r} cannot be read: {reason}") from None
            queries.append(query)
        try:
            # One job for all, in batches of Arrow: a row of its own takes a thousand times as long.
            frame = tables.sql_query(" UNION ALL ".join(queries)).to_pandas()
        except (Py4JError, JavaException) as error:
            raise JobError(f"the outputs cannot be read: {why_failed(error)}", logs) from None
    return {sink: _columns(frame[frame["sink"] == sink], names) for sink, names in sinks.items()}


def _columns(rows: pd.DataFrame, names: Sequence[str]) -> dict[str, pa.ChunkedArray] | None:
    """Return the rows of one sink by the names of its columns."""
    if rows.empty:
        return None
    texts = (pa.Array.from_pandas(rows.iloc[:, place], type=pa.string()) for place in range(1, len(names) + 1))
    return {name: pa.chunked_array([text]) for name, text in zip(names, texts, strict=True)}
