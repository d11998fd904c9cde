"""Construction of the job from a configuration: source table, anonymizer and sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pyflink.datastream import KeyedProcessFunction
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.causes import SETTINGS, JobSetup
from crenel.jobs.config.catalogs import JDBC
from crenel.jobs.config.connectors import Options
from crenel.jobs.config.delivery import repeating_scans, repeating_source
from crenel.jobs.config.flink_settings import FOLDERS, INTERVAL, STATE
from crenel.jobs.config.load import Config
from crenel.jobs.config.overlaps import find_sinks_in_inputs, find_sinks_in_state
from crenel.jobs.config.start_warnings import (
    BACKENDS,
    IDLE_OF_ALL,
    arrival_warnings,
    backend_warnings,
    idleness_warnings,
    leftover_warnings,
    row_warnings,
    start_warnings,
    timeout_warnings,
)
from crenel.jobs.pipeline.anonymizer import anonymizer, flattened, outputs
from crenel.jobs.pipeline.catalog_tables import create_catalogs, plan_sink, read_rows
from crenel.jobs.pipeline.environment import instants_elsewhere
from crenel.jobs.pipeline.java_functions import register
from crenel.jobs.pipeline.job import JOB, Job
from crenel.jobs.pipeline.json_numbers import use_fast_numbers
from crenel.jobs.pipeline.layout import Layout, SourceColumns, layout
from crenel.jobs.pipeline.side_streams import read_forget
from crenel.jobs.pipeline.sink_columns import Column, lines_of
from crenel.jobs.pipeline.source_table import (
    SOURCE,
    column_names,
    column_types,
    create_table,
    parsing,
    read_options,
    register_times,
    source_table,
)
from crenel.jobs.pipeline.sql_expressions import options_sql
from crenel.operators.column_types import parse
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import ShardFunction


def read_layout(tables: StreamTableEnvironment, config: Config) -> Layout:
    """Create the source and derive all columns that depend on it.

    Raises
    ------
    ConfigError
        Columns of the source do not match the policy; the message lists all of them. Or ``source.ddl`` creates no
        readable table.
    """
    create_catalogs(tables, config)
    named, field = config.source.table, config.source.field
    if named is None:
        create_table(tables, field, config.source, SOURCE)
    else:
        register_times(tables, config.source)
        tables.create_temporary_view(SOURCE, read_rows(tables, config, field, named, config.source.watermark))
    table = source_table(tables)
    options = table.options if named is None else named.as_connector
    use_fast_numbers(tables, config.source.ddl)
    query, records = config.source.query or "SELECT * FROM source", config.source.records
    if records is not None:
        register(tables, records.functions())
        query = records.query(column_names(tables))
    with parsing("source.query", config.source.varied):
        source = flattened(tables, tables.sql_query(query), config.policy.roles)
    tables.create_temporary_view(JOB.table("source"), source)
    repeating: list[str] = []
    if not config.accept_duplicates:  # a plan has the scan of a refused source too, which needs no second message
        repeating = [*repeating_source(options, field)] or [*repeating_scans(source.explain, config.catalogs)]
    types, policy = column_types(source), config.policy
    builders = {of.name: of.builder for of in policy.categorical} | {
        of.name: of.builder for of in policy.generalized.values()
    }
    dated = (name for name, builder in builders.items() if builder is not None and builder.kind == "date")
    read = {policy.event_time, *(attribute.name for attribute in policy.numeric), *dated}
    instants = (name for name, kind in types.items() if name in read and parse(kind).name == "TIMESTAMP_LTZ")
    # The texts are those of the configuration, which identify stored state.
    found = SourceColumns(
        types,
        has_watermark=table.watermark,
        problems=(*repeating, *instants_elsewhere(tables, instants)),
        texts={
            "source.query": " ".join(query.split()) + ("" if records is None else records.parsing_options),
            "source.ddl": "; ".join(table.computed),
        },
    )
    return layout(config, found)


def build(
    tables: StreamTableEnvironment,
    config: Config,
    operator: Callable[[AnonymizationPlan], KeyedProcessFunction] = ShardFunction,
    *,
    creates: bool = True,
) -> Job:
    """Build the job; its ``execute`` starts it.

    Parameters
    ----------
    operator : makes the function between encode and the sinks
    creates : whether missing tables of catalogs are created; otherwise the job can only be explained

    Raises
    ------
    ConfigError
        As ``read_layout`` does, or an output would mix with the job's input, or a table of a catalog does not fit it.
    """
    found = read_layout(tables, config)
    forget = None if config.source.forget is None else read_forget(tables, config.source.forget)
    sinks = dict(config.sinks)
    lines = lines_of(sinks["released"], found.sinks["released"])
    if lines is not None:
        sinks["released"] = {**sinks["released"], "format": "raw"}
    released = anonymizer(tables, config, found, operator=operator, forget=forget, lines=lines, refuses=True)
    sources = read_options(tables, config)
    if mixed := list(_mixed(tables, config, sources)):
        raise ConfigError("it", mixed)
    warnings, setup = tuple(job_warnings(tables, config, sources)), job_setup(tables, config, sources)
    fingerprint = found.plan.context.fingerprint
    job = Job(tables, released, warnings, setup, fingerprint=fingerprint, conceals=bool(config.source.varied))
    for name, (columns, origin) in outputs(found, with_lines=lines is not None).items():
        if name in sinks:  # Flink need not plan unused outputs
            sink, into = JOB.table(f"sink_{name}"), None
            if name in config.tables:
                into = plan_sink(tables, config, name, config.tables[name], columns, creates=creates)
            else:
                _create_sink(tables, sink, columns, sinks[name])
            job.insert(sink, f"SELECT {', '.join(column.selection for column in columns)} FROM {origin}", into)
    return job


def job_setup(tables: StreamTableEnvironment, config: Config, sources: Mapping[str, Options]) -> JobSetup:
    """Return the facts that may be reported if a job fails; ``sources``: options of its input tables by field."""
    used = tables.get_config()
    settings = {name: value for name in SETTINGS if (value := used.get(name, ""))}
    databases = [f"catalogs.{name}" for name, options in config.catalogs.items() if options["type"] == JDBC]
    return JobSetup(sources, config.sinks, settings, column_names(tables), databases)


def job_warnings(tables: StreamTableEnvironment, config: Config, sources: Mapping[str, Options]) -> Iterator[str]:
    """Yield warnings, each with its field; ``sources``: options of the input tables by field.

    ``crenel check``, ``crenel run`` and ``flink run`` begin with the same ones. The effective settings of ``tables``
    count.
    """
    settings = tables.get_config()
    source = sources[config.source.field]
    for field, options in sources.items():
        yield from row_warnings(field, options)
    counted_by = config.counts_event_time
    if counted_by is None and config.policy.event_time_limit is not None:
        counted_by = "policy.event_time_limit"
    yield from arrival_warnings(source_table(tables).computed, counted_by)
    yield from idleness_warnings(source, counted_by, {IDLE_OF_ALL: settings.get(IDLE_OF_ALL, "")})
    if not any(settings.get(name, "") for name in STATE):
        yield from start_warnings(source)
        yield from leftover_warnings(config.sinks)
    yield from backend_warnings({name: settings.get(name, "") for name in BACKENDS})
    interval = get_gateway().jvm.org.apache.flink.util.TimeUtils.parseDuration(settings.get(INTERVAL, "0"))
    yield from timeout_warnings(config.sinks, interval.toMillis())


def _mixed(tables: StreamTableEnvironment, config: Config, sources: Mapping[str, Options]) -> Iterator[str]:
    """Yield a message for each output that would mix with the job's input, or with Flink's state."""
    source, requests = sources[config.source.field], sources.get("source.forget.ddl")
    is_filtered = config.source.forget is not None and config.source.forget.query is not None
    yield from find_sinks_in_inputs(config.sinks, source, requests, is_filtered=is_filtered, field=config.source.field)
    # The sinks of the configuration were checked before; only the table of requests is new here.
    settings = {name: tables.get_config().get(name, "") for name in FOLDERS}
    yield from find_sinks_in_state({}, settings, requests)


def _create_sink(
    tables: StreamTableEnvironment, name: str, columns: tuple[Column, ...], options: dict[str, str]
) -> None:
    declarations = ", ".join(column.declaration for column in columns)
    settings = options_sql(options)
    tables.execute_sql(f"CREATE TEMPORARY TABLE {name} ({declarations}) WITH ({settings})")
