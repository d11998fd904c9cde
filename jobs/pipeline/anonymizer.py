"""Anonymization between a view of the source and views of the outputs: encode, operator, and side outputs.

A job and a program of the user (``crenel.flink``) share it. Each stage takes the configuration whole, the layout that
is derived from it and the source, and the names of the views, functions and operators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from pyflink.common import Types
from pyflink.datastream import DataStream, KeyedProcessFunction, OutputTag
from pyflink.datastream.data_stream import KeyedStream
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment, Table

from crenel.jobs.config.flink_settings import MAX_PARALLELISM
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.audit_chain import chain_settings
from crenel.jobs.pipeline.bundle_timing import endless
from crenel.jobs.pipeline.java_functions import instance, register
from crenel.jobs.pipeline.job import JOB, Names
from crenel.jobs.pipeline.layout import Layout
from crenel.jobs.pipeline.nested import flat_columns, item_functions
from crenel.jobs.pipeline.packing import JavaFunction, packing_functions
from crenel.jobs.pipeline.side_streams import Requests, beginnings, nothing, requests, without_watermarks
from crenel.jobs.pipeline.sink_columns import LINE, SUMMARY_COLUMNS, Column, row_sql, unnested
from crenel.jobs.pipeline.source_table import append_only, column_names, column_types
from crenel.jobs.pipeline.sql_expressions import quote
from crenel.operators.encode.function import encode_function
from crenel.operators.output_columns import ROWS, own_columns
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.rows import LINES, REFUSAL, batch_type
from crenel.operators.shards.admission import ADDRESSED_TYPE, BLOCK_TYPE, AdmissionFunction
from crenel.operators.shards.function import FORGOTTEN, REJECTED, SUMMARY, SUPPRESSED, ShardFunction, further_tags

_SIDES: Mapping[str, OutputTag] = {
    "suppressed": SUPPRESSED,
    "rejected": REJECTED,
    "forgotten": FORGOTTEN,
    "summary": SUMMARY,
}
"""Side outputs of every algorithm."""

_FITS = JavaFunction(
    "crenel_fits",
    "crenel.Fits",
    """
package crenel;

import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.types.Row;

/** Ends the job for good at a refusal of stored state, which Python could only raise again at each restart. */
public class Fits implements FilterFunction {
    public boolean filter(Object batch) {
        Object refusal = ((Row) batch).getField(((Row) batch).getArity() - 1);
        if (refusal != null) {
            throw new IllegalStateException((String) refusal, new SuppressRestartsException(null));
        }
        return true;
    }
}
""",
)
"""Filter of the main output. In SQL it would be a step that copies all arrays of the releases."""


def flattened(tables: StreamTableEnvironment, table: Table, roles: Collection[str]) -> Table:
    """Return a table with the fields of nested columns as columns (``crenel.jobs.pipeline.nested.flat_columns``)."""
    types = column_types(table)
    columns = flat_columns(types, roles)
    if columns.keys() == types.keys():
        return table
    register(tables, item_functions(types, roles))
    # A time attribute that is selected as it is keeps its watermark.
    return tables.sql_query(
        f"SELECT {', '.join(f'{column} AS {quote(name)}' for name, column in columns.items())} FROM {table}"
    )


def anonymizer(
    tables: StreamTableEnvironment,
    config: Config,
    found: Layout,
    names: Names = JOB,
    operator: Callable[[AnonymizationPlan], KeyedProcessFunction] = ShardFunction,
    forget: Requests | None = None,
    lines: tuple[str, ...] | None = None,
    *,
    refuses: bool = False,
) -> DataStream:
    """Return the releases of the records in the view ``source``, and create a view of each output.

    Parameters
    ----------
    names : of the views, functions and operators; ``names.table("source")`` exists already
    operator : makes the function between encode, or the admissions, and the outputs
    forget : requests to forget persons
    lines, refuses : as of ``AnonymizationPlan``

    Raises
    ------
    ConfigError
        The view changes earlier rows, or a request to forget or a reference distribution does not fit it.
    """
    # Before the first stream, from which on no jar reaches the loader of the job's classes.
    register(tables, (function for column in found.sinks["released"] for function in column.functions))
    fits = instance(tables, _FITS) if refuses else None
    rows = _encode(tables, config, found, names)
    blocks = _with_side_streams(tables, config, found, names, rows, forget)
    chain = chain_settings(config, found)
    plan = replace(found.plan, chain=chain, encoders=_parallelism(rows), lines=lines, refuses=refuses)
    if config.admissions:
        admitted = _key_by_shard(blocks).process(AdmissionFunction(plan), ADDRESSED_TYPE)
        blocks = _stateful(admitted, config, names, "-admission")
    released = _stateful(_key_by_shard(blocks).process(operator(plan), batch_type(plan)), config, names)
    _create_views(tables, config, found, names, released, fits, with_lines=lines is not None)
    return released


def _stateful(stream: DataStream, config: Config, names: Names, part: str = "") -> DataStream:
    """Name an operator with state of shards; ``part`` follows the name of the algorithm."""
    # Under another name Flink finds no state for the operator, while sources and sinks keep theirs.
    epoch = "" if config.epoch == 1 else f"-{config.epoch}"
    stream = stream.uid(names.uid(f"{config.algorithm.name}{part}{epoch}")).name(f"{config.algorithm.name}{part}")
    # The keys of shards are chosen for this number, also where a program has another setting.
    return stream.set_max_parallelism(MAX_PARALLELISM)


def encoded(tables: StreamTableEnvironment, config: Config, found: Layout, names: Names = JOB) -> str:
    """Return the query of encoded rows: ``e`` holds the key of a shard and the bytes of a block."""
    records = config.source.records
    read = None if records is None else records.arguments(found.plan.arguments)
    register(tables, packing_functions(found.plan.types[read.name] for read in found.plan.members))
    encode = names.table("encode")
    tables.create_temporary_system_function(encode, encode_function(found.plan, read))
    if records is None or read is None:
        return f"SELECT {encode}({', '.join(found.arguments)}) AS e FROM {names.table('source')}"
    columns = column_names(tables)
    record = next(name for number in count() if (name := f"record{number}") not in {*columns, *records.fields})
    given = (sql for sql, here in zip(found.arguments, read.arguments, strict=True) if here is None)
    rows = flattened(tables, tables.sql_query(records.query(columns, record)), config.policy.roles)
    return f"SELECT {encode}({', '.join([record, *given])}) AS e FROM {rows}"


def _encode(tables: StreamTableEnvironment, config: Config, found: Layout, names: Names) -> DataStream:
    # The filter tests b and not e, because a row of nulls is not null.
    rows = encoded(tables, config, found, names)
    query = f"SELECT e.k AS k, ROW(e.k, e.b) AS v FROM ({rows}) WHERE e.b IS NOT NULL"
    return _typed(append_only(tables, query, None if config.source.is_given else "table"))


def _with_side_streams(
    tables: StreamTableEnvironment,
    config: Config,
    found: Layout,
    names: Names,
    blocks: DataStream,
    forget: Requests | None,
) -> DataStream:
    """Return a stream of the blocks of the source and of the rows of the other streams that the job needs.

    A stream that has ended would end event time as soon as the streams beside it are idle. So where one of them is
    unbounded, each one but the source is united with a stream that does not end.
    """
    others: dict[str, DataStream] = {}
    if forget is not None:
        others["forget"] = requests(tables, forget, found, names)
    if config.audit_chain is not None or config.admissions:
        others[f"begin-{config.epoch}"] = beginnings(tables, found.plan.keys, config.epoch, names)
    others = {name: _typed(stream) for name, stream in others.items()}
    ends = (stream._j_data_stream.getTransformation() for stream in (blocks, *others.values()))
    if any(map(endless, (each for end in ends for each in end.getTransitivePredecessors()))):
        ticks = _typed(nothing(tables, names))
        others = {name: stream.union(ticks) for name, stream in others.items()} | {"end": ticks}
    beside = [without_watermarks(stream, name, names) for name, stream in others.items()]
    return blocks.union(*beside) if beside else blocks


def _typed(stream: DataStream) -> DataStream:
    """Declare a stream as rows of a key and a block, which Python reads."""
    stream._j_data_stream.getTransformation().setOutputType(ADDRESSED_TYPE.get_java_type_info())
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
    return KeyedStream(stream.keyBy(get_gateway().jvm.KeyByKeySelector(), key_type), BLOCK_TYPE, blocks)


def outputs(
    found: Layout, names: Names = JOB, *, with_lines: bool = False
) -> dict[str, tuple[tuple[Column, ...], str]]:
    """Return the columns of each output, and the relation that they are selected from.

    ``with_lines``: whether the operator writes published records as lines, which are then the only column.
    """
    batches, members = names.table("batches"), () if with_lines else found.members
    rows = [column.row for column in (*found.release, *members)]
    releases = f"{batches} CROSS JOIN UNNEST(releases) AS r ({', '.join(rows)})"
    sinks = found.sinks | {"summary": SUMMARY_COLUMNS}
    if with_lines:
        released = f"{batches} CROSS JOIN UNNEST(SPLIT({LINES}, U&'\\000A')) AS l ({LINE.name})"
        sinks["released"] = (LINE,)
    else:
        released = unnested(releases, found.release, members)
    relations = {"released": released, "audit": releases}
    for name, (columns, arrays) in ROWS.items():
        relations[name] = unnested(names.table(name), columns, arrays) if arrays else names.table(name)
    own = {name: names.table(name) for name in sinks if name not in relations}
    return {name: (sinks[name], relation) for name, relation in (relations | own).items()}


def _create_views(
    tables: StreamTableEnvironment,
    config: Config,
    found: Layout,
    names: Names,
    released: DataStream,
    fits: Any,
    *,
    with_lines: bool,
) -> None:
    """Create a view of each output of the operator; ``fits``: the filter of the main output, or None.

    PyFlink would send an unclaimed side output to the main output. So all of them become streams before the first view:
    ``from_data_stream`` then claims each one at the operator, also if no sink reads it.
    """
    own = {output.name: (own_columns(output), ()) for output in config.algorithm.outputs}
    columns = {name: row_sql(kept, arrays) for name, (kept, arrays) in {**ROWS, **own}.items()}
    tags = {**_SIDES, **further_tags(config.algorithm)}
    streams = {name: released.get_side_output(tags[name]) for name in columns}
    batches = {"releases": f"ARRAY<{found.release_type(with_members=not with_lines)}>"}
    if with_lines:
        batches[LINES] = "STRING"
    accepted = released
    if fits is not None:
        accepted = DataStream(released._j_data_stream.filter(fits).uid(names.uid("fits")))
        batches[REFUSAL] = "STRING"
    for name, types in {"batches": batches, **columns}.items():
        schema = Schema.new_builder()
        for column, sql_type in types.items():
            schema = schema.column(column, sql_type)
        view = tables.from_data_stream(streams.get(name, accepted), schema.build())
        tables.create_temporary_view(names.table(name), view)
