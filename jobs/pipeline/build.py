"""Construction of the job from a configuration: source, encode, operator and sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from pyflink.common import Types
from pyflink.datastream import DataStream, KeyedProcessFunction
from pyflink.datastream.data_stream import KeyedStream
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.fingerprint import Fingerprint, fingerprint
from crenel.jobs.causes import SETTINGS, JobSetup
from crenel.jobs.config.delivery import repeating_source
from crenel.jobs.config.load import Config, ConfigError
from crenel.jobs.config.overlaps import find_sinks_in_inputs, find_sinks_in_state
from crenel.jobs.config.paths import FOLDERS
from crenel.jobs.config.reserved_settings import MAX_PARALLELISM
from crenel.jobs.pipeline.bundle_timing import endless
from crenel.jobs.pipeline.chain import chain_plan
from crenel.jobs.pipeline.factories import find_missing_factories
from crenel.jobs.pipeline.job import Job
from crenel.jobs.pipeline.layout import Layout, layout
from crenel.jobs.pipeline.records import records_plan, records_query
from crenel.jobs.pipeline.references import with_codes
from crenel.jobs.pipeline.side_streams import beginnings, nothing, requests, without_watermarks
from crenel.jobs.pipeline.sink_columns import (
    SQL,
    SUMMARY_COLUMNS,
    Column,
    Plain,
    arrays,
    declared,
    in_force,
    written_null,
)
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
from crenel.jobs.pipeline.unnest import unnested
from crenel.jobs.pipeline.warnings import cautions_of_job
from crenel.operators.encode.function import encode_function
from crenel.operators.rows import batch_type
from crenel.operators.shards.function import FORGOTTEN, REJECTED, SUMMARY, SUPPRESSED, ShardFunction, further_tags
from crenel.operators.shards.keys import shard_keys
from crenel.operators.shards.plan import OperatorPlan

_OF_ALL = ("released", "audit", "suppressed", "rejected", "forgotten")
"""Sinks of every algorithm, in ``Layout.sinks``."""

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
    noise = config.sampling_and_noise is not None
    table = source_table(tables)
    return layout(
        config.policy,
        columns,
        noise=noise,
        representative=config.algorithm.representative(config.parameters),
        further=config.algorithm.outputs,
        in_force=tuple(in_force(config.privacy, config.sampling_and_noise)),
        chained=config.audit_chain is not None,
        counts_event_time=config.counts_event_time,
        watermark=table.watermark,
        unfit=() if config.accept_duplicates else repeating_source(table.options),
        source={
            "source.query": " ".join(query.split()) + ("" if records is None else records.told),
            "source.ddl": "; ".join(table.computed),
        },
    )


def stored_under(config: Config, found: Layout) -> Fingerprint:
    """Return the fingerprint of restored state (``crenel.anonymity.model.fingerprint.fingerprint``)."""
    return fingerprint(
        found.policy,
        config.shards,
        config.subject_key,
        found.published,
        algorithm=config.algorithm.stored_as,
        sampling_and_noise=config.sampling_and_noise,
        subject_type=found.subject_type,
        source=found.source,
        privacy=config.privacy,
        epoch=config.epoch,
    )


def operator_plan(config: Config, found: Layout, encoders: int = 1) -> OperatorPlan:
    """Return the operator's parameters; ``encoders``: number of parallel encoders."""
    numeric = [a.name for a in found.policy.quasi_identifiers if isinstance(a, Numeric)]
    null_text = written_null(config.sinks["released"])
    encode = found.encode_plan(config.shards, (0,) * config.shards.count, config.subject_key, null_text)
    terms = ShardContext(
        policy=found.policy,
        privacy=with_codes(config.privacy, found, encode),
        parameters=config.parameters,
        members=found.members_schema,
        sampling_and_noise=config.sampling_and_noise,
        fingerprint=stored_under(config, found),
    )
    return OperatorPlan(
        algorithm=config.algorithm,
        terms=terms,
        seed=config.seed,
        integers=frozenset(name for name, whole in zip(numeric, found.integers, strict=True) if whole),
        encoded=encode.checked,
        numbers={key: number for number, key in enumerate(shard_keys(config.shards.count, MAX_PARALLELISM))},
        extremes=found.extremes,
        chain=chain_plan(config, found, null_text),
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
    of_sinks = {f"sinks.{name}": options for name, options in config.sinks.items()}
    if missing := list(find_missing_factories(tables, of_sinks)):
        raise ConfigError("it", missing)
    blocks = _typed(_encode(tables, config, found))
    encoders = _parallelism(blocks)
    if config.source.forget is not None:
        asked = _typed(requests(tables, config, config.source.forget, found))
        blocks = blocks.union(without_watermarks(asked, "forget"))
    if mixed := list(_mixed(tables, config)):
        raise ConfigError("it", mixed)
    if any(map(endless, blocks._j_data_stream.getTransformation().getTransitivePredecessors())):
        blocks = blocks.union(without_watermarks(_typed(nothing(tables)), "end"))
    if config.audit_chain is not None:
        keys = shard_keys(config.shards.count, MAX_PARALLELISM)
        begun = _typed(beginnings(tables, keys, config.epoch))
        blocks = blocks.union(without_watermarks(begun, f"begin-{config.epoch}"))
    plan = operator_plan(config, found, encoders)
    released = _key_by_shard(blocks).process(operator(plan), batch_type(plan))
    # Under another name Flink finds no state for the operator, while sources and sinks keep theirs.
    name = config.algorithm.stored_as if config.epoch == 1 else f"{config.algorithm.stored_as}-{config.epoch}"
    released = released.uid(f"crenel-{name}").name(config.algorithm.name)
    _view(tables, "crenel_batches", released, {"releases": f"ARRAY<{found.release_sql}>"})
    # Each side output is consumed, because PyFlink would send unclaimed ones to the main output.
    suppressed = {"shard": "INT", **arrays(found.suppressed_types)}
    _view(tables, "crenel_suppressed", released.get_side_output(SUPPRESSED), suppressed)
    _view(tables, "crenel_rejected", released.get_side_output(REJECTED), arrays(found.rejected_types))
    _view(tables, "crenel_forgotten", released.get_side_output(FORGOTTEN), _plain(found.forgotten_types))
    _view(tables, "crenel_summary", released.get_side_output(SUMMARY), {c.name: c.sql_type for c in SUMMARY_COLUMNS})
    tags = further_tags(config.algorithm)
    for output in config.algorithm.outputs:
        _view(tables, f"crenel_{output.name}", released.get_side_output(tags[output.name]), declared(output.columns))
    warnings, setup = tuple(cautions_of_job(tables, config)), job_setup(tables, config)
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


def outputs(found: Layout) -> dict[str, tuple[tuple[Column, ...], str]]:
    """Return the columns of each output, and the relation that they are selected from."""
    names, members, suppressed, rejected = (
        [name for name, _ in types]
        for types in (found.release_types, found.member_types, found.suppressed_types, found.rejected_types)
    )
    releases = f"crenel_batches CROSS JOIN UNNEST(releases) AS r ({', '.join([*names, *members])})"
    return {
        "released": (found.sinks["released"], unnested(releases, names, members)),
        "audit": (found.sinks["audit"], releases),
        "suppressed": (found.sinks["suppressed"], unnested("crenel_suppressed", ["shard"], suppressed)),
        "rejected": (found.sinks["rejected"], unnested("crenel_rejected", [], rejected)),
        "forgotten": (found.sinks["forgotten"], "crenel_forgotten"),
        "summary": (SUMMARY_COLUMNS, "crenel_summary"),
        **{name: (columns, f"crenel_{name}") for name, columns in found.sinks.items() if name not in _OF_ALL},
    }


def encoded(tables: StreamTableEnvironment, config: Config, found: Layout) -> str:
    """Return the query of encoded rows: ``e`` holds the key of a shard and the bytes of a block."""
    keys = shard_keys(config.shards.count, MAX_PARALLELISM)
    plan = found.encode_plan(config.shards, keys, config.subject_key, written_null(config.sinks["released"]))
    records = config.source.records
    read = None if records is None else records_plan(records, found.asked)
    tables.create_temporary_system_function("crenel_encode", encode_function(plan, read))
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
    return append_only(tables, query)


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


def _plain(columns: tuple[tuple[str, Plain], ...]) -> dict[str, str]:
    return {name: SQL[kind] for name, kind in columns}


def _view(tables: StreamTableEnvironment, name: str, stream: DataStream, columns: dict[str, str]) -> None:
    schema = Schema.new_builder()
    for column, sql_type in columns.items():
        schema = schema.column(column, sql_type)
    tables.create_temporary_view(name, tables.from_data_stream(stream, schema.build()))


def _create_sink(
    tables: StreamTableEnvironment, name: str, columns: tuple[Column, ...], options: dict[str, str]
) -> None:
    declarations = ", ".join(column.declaration for column in columns)
    settings = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in options.items())
    tables.execute_sql(f"CREATE TEMPORARY TABLE {name} ({declarations}) WITH ({settings})")
