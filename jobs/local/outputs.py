"""Reader of a run's outputs from the sinks of its configuration, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from crenel.anonymity.model.attributes import Categorical
from crenel.evidence.outputs import RunOutputs, is_outside, published_nodes, split_audit
from crenel.evidence.published_sets import PublishedSets
from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import local_path
from crenel.jobs.local.sink_files import FORM, MIXED, Form, OutputsError, read_folder
from crenel.jobs.pipeline.sink_columns import released_paths, written_null
from crenel.operators.digests import in_force_digest
from crenel.operators.output_columns import RECORD_OUTPUTS
from crenel.operators.plan import joined_schemas, output_schemas

__all__ = ["OutputsError", "read_outputs"]

_GONE = ("blackhole", "print")
_FORMATS = ("csv", "json", "parquet")
_NAMED = {"kafka": ("topic", "properties.bootstrap.servers"), "jdbc": ("url", "table-name")}
"""Options that name the place of a sink, by connector; those of others are all compared."""


def read_outputs(config: Config, *others: Config, foreign: bool = False) -> RunOutputs:
    """Read every sink that a configuration names.

    Finished files of CSV, JSON and Parquet are read directly, all other sinks through Flink, up to their current end. A
    sink that stores nothing (``print``) counts as absent. A missing folder counts as empty, because Flink makes no file
    without rows, unless all folders are missing.

    Parameters
    ----------
    others : further configurations of the run, which was restored with each of them. A place that several name is read
        once, and each row has the columns of one of them; all other columns are null
    foreign : whether to accept values that the policy does not know, for a caller that checks them

    Raises
    ------
    OutputsError
        In one line, with the field of the sink: nothing was found, a line is truncated, or the outputs are of another
        configuration or of two runs. The message holds no value of a record.
    crenel.anonymity.model.errors.ConfigError, crenel.jobs.local.run.JobError, crenel.jobs.local.java.JavaError
        As ``crenel.jobs.local.run.run`` does, where a sink is read through Flink.
    """
    configs = (config, *others)
    for one in configs:
        if (connector := one.sinks["released"]["connector"]) in _GONE:
            raise OutputsError(
                f"sinks.released.connector: {connector!r} keeps nothing that could be read; choose another"
            )
        if others and one.sinks.get("audit", {}).get("connector", _GONE[0]) in _GONE:
            raise OutputsError("sinks.audit: is missing, and only it states the configuration of each release")
    schemas = joined_schemas([_schemas(one) for one in configs])
    stored = _stored_outputs(configs)
    for place in stored:
        if place.name == "released" and any(one.is_nested for one in place.configs):
            if len({(one.is_nested, tuple(_schemas(one)["released"].names)) for one in place.configs}) > 1:
                raise OutputsError(
                    "shape: records of one sink are nested, and have other columns in another configuration; verify "
                    "each with a sink of its own"
                )
    read = [None if place.folder is None else read_folder(place.name, place.folder, place.forms) for place in stored]
    if all(content is None for content in read) and all(place.folder is not None for place in stored):
        raise OutputsError(f"sinks.released.path: {stored[0].folder} holds no finished file; has the job run?")
    texts = {id(place): None if content is None else content[0] for place, content in zip(stored, read, strict=True)}
    for one in configs:
        elsewhere = [place for place in stored if place.folder is None and place.configs[0] is one]
        if elsewhere:
            from crenel.jobs.local.sink_tables import read_tables  # imports Flink

            columns = {place.name: place.columns for place in elsewhere}
            found = read_tables(one, columns, {place.name: place.configs[1:] for place in elsewhere})
            texts |= {id(place): found[place.name] for place in elsewhere}
    parts, forms = dict[str, list[pa.Table]](), list[pa.Array | pa.ChunkedArray]()
    for place in stored:
        table = cast_texts(place.words, texts[id(place)], schemas[place.name])
        if place.name in ("released", "audit"):
            table = _labeled(place.configs[0], place.options, table)
        parts.setdefault(place.name, []).append(table)
        if place.name == "released":
            forms.append(place.forms_of(texts[id(place)], table.num_rows))
    tables = {name: pa.concat_tables(each) for name, each in parts.items()}
    closing = None
    if "audit" in tables and any(one.audit_chain is not None for one in configs):
        tables["audit"], closing = split_audit(tables["audit"])
    in_files = [content for place, content in zip(stored, read, strict=True) if place.name == "released"]
    outputs = RunOutputs(
        policy=config.policy,
        **{name: tables.pop(name, None) for name in RECORD_OUTPUTS},
        further=tables,
        closing=closing,
        forms=[form for each in forms for form in each.to_pylist()] if others else None,
        files=None if None in in_files else tuple(file for content in in_files if content for file in content[1]),
    )
    of = {one.name: one for one in reversed(stored)}
    for name in ("released", "audit"):
        table = getattr(outputs, name)
        if table is not None and not foreign:
            for problem in (*_foreign(config, table), *(_foreign_labels(config, table) if name == "released" else ())):
                raise OutputsError(f"{of[name].words}: {problem}; these are outputs of another policy")
    if outputs.audit is not None:
        required = set.intersection(*(set(_schemas(one)["audit"].names) for one in configs))
        _require_counts(outputs.audit, of["audit"].words, required)
        _require_one_run(outputs.audit, of["audit"].words)
        if not outputs.released.num_rows and outputs.audit.num_rows:
            raise OutputsError(
                f"{of['released'].words}: is empty, and sinks.audit tells of {outputs.audit.num_rows} releases"
            )
        for place in stored:
            if place.name == "audit" and not (place.folder or Path()).exists() and outputs.released.num_rows:
                rows = outputs.released.num_rows
                raise OutputsError(f"{place.words}: does not exist, and sinks.released holds {rows} rows")
    return outputs


def _schemas(config: Config) -> dict[str, pa.Schema]:
    return output_schemas(config, chained=config.audit_chain is not None)


@dataclass(frozen=True)
class StoredOutput:
    """A sink, and the configurations that name it.

    Attributes
    ----------
    name : of the output
    configs : in the order in which they were given
    """

    name: str
    configs: tuple[Config, ...]

    @property
    def options(self) -> dict[str, str]:
        return self.configs[0].sinks[self.name]

    @property
    def folder(self) -> Path | None:
        """The folder of files that are read without Flink; None for other sinks."""
        if self.options["connector"] != "filesystem" or self.options.get("format") not in _FORMATS:
            return None
        return local_path(self.options.get("path", ""))

    @property
    def words(self) -> str:
        """The place for messages."""
        if self.options["connector"] == "filesystem":
            return f"sinks.{self.name}.path: {self.options.get('path')}"
        return f"sinks.{self.name}"

    @property
    def columns(self) -> list[str]:
        """The columns of any of the configurations."""
        return list(dict.fromkeys(name for one in self.configs for name in _schemas(one)[self.name].names))

    @property
    def forms(self) -> list[Form]:
        """The columns that a row may have: those of one of the configurations."""
        forms = []
        for one in self.configs:
            names = _schemas(one)[self.name].names
            paths = released_paths(one, names) if one.is_nested and self.name == "released" else None
            digest = in_force_digest(one.settings) if self.name == "audit" else ""
            forms.append(Form(one.sinks[self.name], names, paths, dict(one.policy.arrays), digest))
        return forms

    def forms_of(self, text: Mapping[str, pa.ChunkedArray] | None, rows: int) -> pa.Array | pa.ChunkedArray:
        """Return (rows,) the names of the columns that each row has, as one text; null where they are unknown."""
        if text is not None and FORM in text:
            return text[FORM]
        known = {form.text for form in self.forms} if self.folder is not None else set()
        return pa.repeat(pa.scalar(known.pop() if len(known) == 1 else None, pa.string()), rows)


def _stored_outputs(configs: Sequence[Config]) -> list[StoredOutput]:
    """Return all sinks that store something, each with the configurations that name it, ``released`` first."""
    found: dict[tuple[str, Hashable], list[Config]] = {}
    for config in configs:
        for name, options in config.sinks.items():
            if options["connector"] not in _GONE:
                found.setdefault((name, _identity(config, name)), []).append(config)
    stored = [StoredOutput(name, tuple(using)) for (name, _), using in found.items()]
    return sorted(stored, key=lambda place: place.name != "released")


def _identity(config: Config, name: str) -> Hashable:
    """Return what identifies the place that a sink writes to, whatever its other options are."""
    options = config.sinks[name]
    if name in config.tables:
        return str(config.tables[name])
    if options["connector"] == "filesystem":
        path = local_path(options.get("path", ""))
        return options.get("path") if path is None else path.resolve()
    named = {key: options.get(key) for key in _NAMED.get(options["connector"], options)}
    return frozenset({"connector": options["connector"], **named}.items())


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


def _require_counts(audit: pa.Table, place: str, required: Collection[str]) -> None:
    """Raise if a release lacks one of its required numbers; ``required``: columns that each release has."""
    counted = ("release_id", "shard", "subjects", "tuples")
    for name in (name for name in audit.column_names if name in counted or name.startswith("diversity_")):
        if audit[name].null_count and name in required:
            raise OutputsError(
                f"{place}: {audit[name].null_count} rows have no {name!r}; an audit log has it in each{MIXED}"
            )


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
            columns.append(_cast_text(text[field.name], field.type) if field.name in text else _nulls(text, field))
        except pa.ArrowInvalid:
            kind = "numbers" if field.type == pa.float64() else "whole numbers"
            raise OutputsError(
                f"{place}: the column {field.name!r} has values that are no {kind}; these are outputs of another policy"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def _nulls(text: Mapping[str, pa.ChunkedArray], field: pa.Field) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(len(next(iter(text.values()))), field.type)])


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
