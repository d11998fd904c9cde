"""Construction of the job from a configuration: source, encode, operator and sinks.

Each stage takes the configuration whole, and the layout that ``read_layout`` derives from it and the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count

from pyflink.common import Types
from pyflink.datastream import DataStream, KeyedProcessFunction, OutputTag
from pyflink.datastream.data_stream import KeyedStream
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment

from crenel.anonymity.algorithm import ShardContext
from crenel.jobs.causes import SETTINGS, JobSetup
from crenel.jobs.config.delivery import repeating_source
from crenel.jobs.config.flink_settings import FOLDERS
from crenel.jobs.config.load import Config, ConfigError
from crenel.jobs.config.overlaps import find_sinks_in_inputs, find_sinks_in_state
from crenel.jobs.pipeline.bundle_timing import endless
from crenel.jobs.pipeline.digests import chain_plan, stored_under
from crenel.jobs.pipeline.factories import find_missing_factories
from crenel.jobs.pipeline.job import Job
from crenel.jobs.pipeline.layout import Layout, SourceColumns, layout
from crenel.jobs.pipeline.records import records_plan, records_query
from crenel.jobs.pipeline.references import with_codes
from crenel.jobs.pipeline.side_streams import beginnings, nothing, requests, without_watermarks
from crenel.jobs.pipeline.sink_columns import SUMMARY_COLUMNS, Column, row_sql, unnested
from crenel.jobs.pipeline.source_table import (
    SOURCE,
    append_only,
    column_names,
    create_table,
    parsing,
    read_options,
    source_table,
)
from crenel.jobs.pipeline.sql_types import literal
from crenel.jobs.pipeline.warnings import job_warnings
from crenel.operators.encode.function import encode_function
from crenel.operators.output_columns import ROWS, own_columns
from crenel.operators.rows import batch_type
from crenel.operators.shards.function import FORGOTTEN, REJECTED, SUMMARY, SUPPRESSED, ShardFunction, further_tags
from crenel.operators.shards.plan import OperatorPlan

_SIDES: Mapping[str, OutputTag] = {
    "suppressed": SUPPRESSED,
    "rejected": REJECTED,
    "forgotten": FORGOTTEN,
    "summary": SUMMARY,
}
"""Side outputs of every algorithm."""

_BLOCK = Types.ROW([Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())])


def read_layout(tables: StreamTableEnvironment, config: Config) -> Layout:
    """Create the source and derive all columns that depend on it.

    Raises
    ------
    ConfigError
        Columns of the source do not match the policy; the message lists all of them. Or ``source.ddl`` creates no
        readable table.
    """
    create_table(tables, "source.ddl", config.source, SOURCE)
    query, records = config.source.query or "SELECT * FROM source", config.source.records
    if records is not None:
        query = records_query(records, column_names(tables))
    with parsing("source.query", config.source.varied):
        source = tables.sql_query(query)
    tables.create_temporary_view("crenel_source", source)
    columns = {
        column.getName(): column.getDataType().getLogicalType().asSummaryString()
        for column in source._j_table.getResolvedSchema().getColumns()
    }
    table = source_table(tables)
    found = SourceColumns(
        columns,
        has_watermark=table.watermark,
        problems=() if config.accept_duplicates else tuple(repeating_source(table.options)),
        texts={
            "source.query": " ".join(query.split()) + ("" if records is None else records.parsing_options),
            "source.ddl": "; ".join(table.computed),
        },
    )
    return layout(config, found)


def operator_plan(config: Config, found: Layout, encoders: int = 1) -> OperatorPlan:
    """Return the operator's parameters; ``encoders``: number of parallel encoders."""
    terms = ShardContext(
        policy=found.policy,
        privacy=with_codes(config.privacy, found),
        parameters=config.parameters,
        members=found.members_schema,
        sampling_and_noise=config.sampling_and_noise,
        fingerprint=stored_under(config, found),
    )
    return OperatorPlan(
        algorithm=config.algorithm,
        context=terms,
        seed=config.seed,
        integers=found.generalization.integers,
        encoded=found.encode.checked,
        numbers={key: number for number, key in enumerate(found.encode.keys)},
        extremes=found.generalization.extremes,
        chain=chain_plan(config, found),
        encoders=encoders,
        subject_key=config.subject_key,
    )


def build(
    tables: StreamTableEnvironment,
    config: Config,
    operator: Callable[[OperatorPlan], KeyedProcessFunction] = ShardFunction,
) -> Job:
    """Build the job; its ``execute`` starts it.

    ``operator`` makes the function between encode and the sinks. Raises as ``read_layout`` does. Also raises where an
    output would mix with the job's input, or needs a connector or format that Flink lacks.
    """
    found = read_layout(tables, config)
    if missing := list(find_missing_factories(tables, {f"sinks.{name}": of for name, of in config.sinks.items()})):
        raise ConfigError("it", missing)
    rows = _encode(tables, config, found)
    blocks = _with_side_streams(tables, config, found, rows)
    if mixed := list(_mixed(tables, config)):
        raise ConfigError("it", mixed)
    plan = operator_plan(config, found, _parallelism(rows))
    released = _key_by_shard(blocks).process(operator(plan), batch_type(plan))
    # Under another name Flink finds no state for the operator, while sources and sinks keep theirs.
    name = config.algorithm.stored_as if config.epoch == 1 else f"{config.algorithm.stored_as}-{config.epoch}"
    released = released.uid(f"crenel-{name}").name(config.algorithm.name)
    _create_views(tables, config, found, released)
    warnings, setup = tuple(job_warnings(tables, config)), job_setup(tables, config)
    job = Job(tables, released, warnings, setup, conceals=bool(config.source.varied))
    for name, (columns, origin) in outputs(found).items():
        if name in config.sinks:  # Flink need not plan unused outputs
            sink = f"crenel_sink_{name}"
            _create_sink(tables, sink, columns, config.sinks[name])
            job.insert(sink, f"SELECT {', '.join(column.selection for column in columns)} FROM {origin}")
    return job


def job_setup(tables: StreamTableEnvironment, config: Config) -> JobSetup:
    """Return the facts that may be reported if a job fails; its input tables have been created."""
    sources = read_options(tables, config)
    used = tables.get_config()
    settings = {name: value for name in SETTINGS if (value := used.get(name, ""))}
    return JobSetup.of(sources, config.sinks, settings, column_names(tables))


def _mixed(tables: StreamTableEnvironment, config: Config) -> Iterator[str]:
    """Yield a message for each output that would mix with the job's input, or with Flink's state."""
    sources = read_options(tables, config)
    source, requests = sources["source.ddl"], sources.get("source.forget.ddl")
    is_filtered = config.source.forget is not None and config.source.forget.query is not None
    yield from find_sinks_in_inputs(config.sinks, source, requests, is_filtered=is_filtered)
    # The sinks of the configuration were checked before; only the table of requests is new here.
    settings = {name: tables.get_config().get(name, "") for name in FOLDERS}
    yield from find_sinks_in_state({}, settings, requests)


def encoded(tables: StreamTableEnvironment, config: Config, found: Layout) -> str:
    """Return the query of encoded rows: ``e`` holds the key of a shard and the bytes of a block."""
    records = config.source.records
    read = None if records is None else records_plan(records, found.argument_forms)
    tables.create_temporary_system_function("crenel_encode", encode_function(found.encode, read))
    if records is None or read is None:
        return f"SELECT crenel_encode({', '.join(found.arguments)}) AS e FROM crenel_source"
    columns = column_names(tables)
    record = next(name for number in count() if (name := f"record{number}") not in {*columns, *records.fields})
    given = (sql for sql, here in zip(found.arguments, read.arguments, strict=True) if here is None)
    query = records_query(records, columns, record)
    return f"SELECT crenel_encode({', '.join([record, *given])}) AS e FROM ({query})"


def _encode(tables: StreamTableEnvironment, config: Config, found: Layout) -> DataStream:
    # The filter tests b and not e, because a row of nulls is not null.
    query = f"SELECT e.k AS k, ROW(e.k, e.b) AS v FROM ({encoded(tables, config, found)}) WHERE e.b IS NOT NULL"
    return _typed(append_only(tables, query))


def _with_side_streams(tables: StreamTableEnvironment, config: Config, found: Layout, blocks: DataStream) -> DataStream:
    """Return a stream of the blocks of the source and of the rows of the other streams that the job needs."""
    if config.source.forget is not None:
        forget_blocks = _typed(requests(tables, config, config.source.forget, found))
        blocks = blocks.union(without_watermarks(forget_blocks, "forget"))
    if any(map(endless, blocks._j_data_stream.getTransformation().getTransitivePredecessors())):
        blocks = blocks.union(without_watermarks(_typed(nothing(tables)), "end"))
    if config.audit_chain is not None:
        start_blocks = _typed(beginnings(tables, found.encode.keys, config.epoch))
        blocks = blocks.union(without_watermarks(start_blocks, f"begin-{config.epoch}"))
    return blocks


def _typed(stream: DataStream) -> DataStream:
    """Declare a stream as rows of a key and a block, which Python reads."""
    stream._j_data_stream.getTransformation().setOutputType(Types.ROW([Types.INT(), _BLOCK]).get_java_type_info())
    return stream


def _parallelism(stream: DataStream) -> int:
    """Return the parallelism of a stream."""
    own = stream._j_data_stream.getTransformation().getParallelism()
    return int(own if own > 0 else stream._j_data_stream.getExecutionEnvironment().getParallelism())


def _key_by_shard(blocks: DataStream) -> KeyedStream:
    """Key blocks by shard as ``DataStream.key_by`` does, but without its Python step: the key is a column already.

    That step would pass every block through Python once more, and delay it by another bundle.
    """
    stream = blocks._j_data_stream
    key_type = Types.ROW([Types.INT()]).get_java_type_info()
    return KeyedStream(stream.keyBy(get_gateway().jvm.KeyByKeySelector(), key_type), _BLOCK, blocks)


def outputs(found: Layout) -> dict[str, tuple[tuple[Column, ...], str]]:
    """Return the columns of each output, and the relation that they are selected from."""
    names = [column.row for column in (*found.release, *found.members)]
    releases = f"crenel_batches CROSS JOIN UNNEST(releases) AS r ({', '.join(names)})"
    relations = {"released": unnested(releases, found.release, found.members), "audit": releases}
    for name, (columns, arrays) in ROWS.items():
        relations[name] = unnested(f"crenel_{name}", columns, arrays) if arrays else f"crenel_{name}"
    sinks = found.sinks | {"summary": SUMMARY_COLUMNS}
    own = {name: f"crenel_{name}" for name in sinks if name not in relations}
    return {name: (sinks[name], relation) for name, relation in (relations | own).items()}


def _view_columns(config: Config) -> dict[str, dict[str, str]]:
    """Return the SQL types of the rows of each side output, by view."""
    own = {output.name: (own_columns(output), ()) for output in config.algorithm.outputs}
    return {f"crenel_{name}": row_sql(columns, arrays) for name, (columns, arrays) in {**ROWS, **own}.items()}


def _create_views(tables: StreamTableEnvironment, config: Config, found: Layout, released: DataStream) -> None:
    """Create a view of each output of the operator.

    Each side output is consumed, because PyFlink would send unclaimed ones to the main output.
    """
    tags = {f"crenel_{name}": tag for name, tag in {**_SIDES, **further_tags(config.algorithm)}.items()}
    streams = {name: released.get_side_output(tags[name]) for name in _view_columns(config)}
    views = {"crenel_batches": {"releases": f"ARRAY<{found.release_sql}>"}, **_view_columns(config)}
    for name, columns in views.items():
        schema = Schema.new_builder()
        for column, sql_type in columns.items():
            schema = schema.column(column, sql_type)
        tables.create_temporary_view(name, tables.from_data_stream(streams.get(name, released), schema.build()))


def _create_sink(
    tables: StreamTableEnvironment, name: str, columns: tuple[Column, ...], options: dict[str, str]
) -> None:
    declarations = ", ".join(column.declaration for column in columns)
    settings = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in options.items())
    tables.execute_sql(f"CREATE TEMPORARY TABLE {name} ({declarations}) WITH ({settings})")
