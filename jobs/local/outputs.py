"""Reader of a run's outputs from the sinks of its configuration, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from crenel.anonymity.model.attributes import Categorical
from crenel.evidence.outputs import RunOutputs, is_outside, published_nodes, split_audit
from crenel.evidence.published_sets import PublishedSets
from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import local_path
from crenel.jobs.local.sink_files import OutputsError, read_folder
from crenel.jobs.pipeline.sink_columns import released_paths, written_null
from crenel.operators.output_columns import RECORD_OUTPUTS
from crenel.operators.plan import output_schemas

__all__ = ["OutputsError", "read_outputs"]

_GONE = ("blackhole", "print")
_FORMATS = ("csv", "json", "parquet")


def read_outputs(config: Config, *, foreign: bool = False) -> RunOutputs:
    """Read every sink that a configuration names.

    Finished files of CSV, JSON and Parquet are read directly, all other sinks through Flink, up to their current end. A
    sink that stores nothing (``print``) counts as absent. A missing folder counts as empty, because Flink makes no file
    without rows, unless all folders are missing.

    ``foreign``: whether to accept values that the policy does not know, for a caller that checks them.

    Raises
    ------
    OutputsError
        In one line, with the field of the sink: nothing was found, a line is truncated, or the outputs are of another
        configuration or of two runs. The message holds no value of a record.
    crenel.anonymity.model.errors.ConfigError, crenel.jobs.local.run.JobError, crenel.jobs.local.java.JavaError
        As ``crenel.jobs.local.run.run`` does, where a sink is read through Flink.
    """
    schemas = output_schemas(config, chained=config.audit_chain is not None)
    kept = {name: options for name, options in config.sinks.items() if options["connector"] not in _GONE}
    if "released" not in kept:
        connector = config.sinks["released"]["connector"]
        raise OutputsError(f"sinks.released.connector: {connector!r} keeps nothing that could be read; choose another")
    folders = {name: folder for name, options in kept.items() if (folder := _folder(options)) is not None}
    paths = {"released": released_paths(config, schemas["released"].names)} if config.is_nested else {}
    arrays = dict(config.policy.arrays)
    read = {
        name: read_folder(name, folder, kept[name], schemas[name].names, paths.get(name), arrays)
        for name, folder in folders.items()
    }
    texts = {name: None if content is None else content[0] for name, content in read.items()}
    if all(table is None for table in texts.values()) and len(texts) == len(kept):
        raise OutputsError(f"sinks.released.path: {folders['released']} holds no finished file; has the job run?")
    if texts.keys() != kept.keys():
        from crenel.jobs.local.sink_tables import read_tables  # imports Flink

        others = {name: schemas[name].names for name in kept if name not in texts}
        texts |= read_tables(replace(config, sinks=kept), others)
    tables = {name: cast_texts(_place(name, kept[name]), text, schemas[name]) for name, text in texts.items()}
    tables |= {name: _labeled(config, kept[name], tables[name]) for name in ("released", "audit") if name in tables}
    closing = None
    if config.audit_chain is not None and "audit" in tables:
        tables["audit"], closing = split_audit(tables["audit"])
    outputs = RunOutputs(
        policy=config.policy,
        **{name: tables.pop(name, None) for name in RECORD_OUTPUTS},
        further=tables,
        closing=closing,
        files=content[1] if (content := read.get("released")) is not None else None,
    )
    for name in ("released", "audit"):
        table = getattr(outputs, name)
        if table is not None and not foreign:
            for problem in (*_foreign(config, table), *(_foreign_labels(config, table) if name == "released" else ())):
                raise OutputsError(f"{_place(name, kept[name])}: {problem}; these are outputs of another policy")
    if outputs.audit is not None:
        _require_counts(outputs.audit, _place("audit", kept["audit"]))
        _require_one_run(outputs.audit, _place("audit", kept["audit"]))
        if not outputs.released.num_rows and outputs.audit.num_rows:
            place = _place("released", kept["released"])
            raise OutputsError(f"{place}: is empty, and sinks.audit tells of {outputs.audit.num_rows} releases")
        if "audit" in folders and not folders["audit"].exists() and outputs.released.num_rows:
            place = _place("audit", kept["audit"])
            raise OutputsError(f"{place}: does not exist, and sinks.released holds {outputs.released.num_rows} rows")
    return outputs


def _labeled(config: Config, options: Mapping[str, str], table: pa.Table) -> pa.Table:
    """Return a table in which a category without text is the label that the sink writes as a missing value."""
    null = written_null(options)
    labels = {one.name: one.hierarchy.labels for one in config.policy.categorical if one.publish != "set"}
    labels |= {one.name: one.labels for one in config.policy.generalized.values()}
    for name in labels.keys() & {*table.column_names}:
        if table[name].null_count and null in labels[name]:
            place = table.column_names.index(name)
            table = table.set_column(place, name, pc.fill_null(table[name], null))
    return table


def _folder(options: dict[str, str]) -> Path | None:
    """Return the folder of files that are read without Flink; None for other sinks."""
    if options["connector"] != "filesystem" or options.get("format") not in _FORMATS:
        return None
    return local_path(options.get("path", ""))


def _place(name: str, options: dict[str, str]) -> str:
    if options["connector"] == "filesystem":
        return f"sinks.{name}.path: {options.get('path')}"
    return f"sinks.{name}"


def _foreign(config: Config, table: pa.Table) -> Iterator[str]:
    """Yield the signs that a table with a generalization is of another policy."""
    for attribute in config.policy.attributes:
        if isinstance(attribute, Categorical) and attribute.publish == "set":
            sets = PublishedSets.read(attribute, table[attribute.name])
            if strange := int((~sets.is_known[sets.set_of_row]).sum()):
                yield f"{strange} rows of {attribute.name!r} have a label that its hierarchy has not"
            continue
        if isinstance(attribute, Categorical):
            strange = int((published_nodes(attribute.hierarchy, table[attribute.name]) < 0).sum())
            if strange:
                yield f"{strange} rows of {attribute.name!r} have a label that its hierarchy has not"
            continue
        ends = [name for name in (f"{attribute.name}_min", f"{attribute.name}_max") if name in table.column_names]
        for name in ends or [attribute.name]:
            if attribute.missing == "reject" and table[name].null_count:
                yield f"{table[name].null_count} rows have no {name!r}"
            if attribute.domain is not None:
                outside = int(is_outside(table[name].to_numpy(), attribute.domain).sum())
                if outside:
                    yield f"{outside} rows of {name!r} lie outside of its domain"
        if ends:
            reversed_rows = _count(pc.greater(*(table[name] for name in ends)))
            if reversed_rows:
                yield f"{reversed_rows} rows of {attribute.name!r} end before they begin"


def _foreign_labels(config: Config, released: pa.Table) -> Iterator[str]:
    """Yield the signs that published records have sensitive values of another policy."""
    for attribute in config.policy.generalized.values():
        if strange := _count(pc.invert(pc.is_in(released[attribute.name], pa.array(attribute.labels, pa.string())))):
            yield f"{strange} rows of {attribute.name!r} have no label of its hierarchy at level {attribute.level}"


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(pc.fill_null(mask, False)).as_py() or 0)


def _require_counts(audit: pa.Table, place: str) -> None:
    """Raise if a release lacks one of its required numbers."""
    counted = ("release_id", "shard", "subjects", "tuples")
    for name in (name for name in audit.column_names if name in counted or name.startswith("diversity_")):
        if audit[name].null_count:
            raise OutputsError(f"{place}: {audit[name].null_count} rows have no {name!r}; an audit log has it in each")


def _require_one_run(audit: pa.Table, place: str) -> None:
    """Raise if the release ids of a shard restart: if 0 is repeated, and 1 as well where it exists."""
    first = audit.filter(pc.less_equal(audit["release_id"], 1))
    times = Counter(zip(first["shard"].to_pylist(), first["release_id"].to_pylist(), strict=True))
    for (shard, release), count in sorted(times.items()):
        if release == 0 and count > 1 and times.get((shard, 1), 2) > 1:
            raise OutputsError(
                f"{place}: release ids of shard {shard} begin again: these are outputs of {count} runs in one place; "
                "read them one by one"
            )


def cast_texts(place: str, text: Mapping[str, pa.ChunkedArray] | None, schema: pa.Schema) -> pa.Table:
    """Return a typed table from columns of text; an empty one from None.

    Numbers may also have the form of times (``2024-03-01 08:00:00.5Z``, with a T or a blank) or days, and become epoch
    milliseconds.

    Raises
    ------
    OutputsError
        Names ``place`` and a column that cannot be read as its type; the message holds no value.
    """
    if text is None:
        return schema.empty_table()
    columns = []
    for field in schema:
        try:
            columns.append(_cast_text(text[field.name], field.type))
        except pa.ArrowInvalid:
            kind = "numbers" if field.type == pa.float64() else "whole numbers"
            raise OutputsError(
                f"{place}: the column {field.name!r} has values that are no {kind}; these are outputs of another policy"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def _cast_text(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if kind == pa.string():
        return text
    if kind not in (pa.int64(), pa.float64()):
        return pc.cast(text, kind)
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        # Casting to text and Kafka's formats may omit the zone, which then is UTC; Parquet may have further digits.
        times = pc.cast(pc.replace_substring_regex(text, r"(\.\d{3})0*Z?$|Z$", r"\1"), pa.timestamp("ms"))
        return pc.cast(pc.cast(times, pa.int64()), kind)
