"""Settings of the hash chain of a job's audit log, which follow from the SQL types of the sinks."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.layout import Layout
from crenel.operators.column_types import INSTANTS, INTEGERS, ColumnType, parse
from crenel.operators.digests import code_version, hierarchies_digest, policy_digest, settings_digest
from crenel.operators.encode.columns import Read
from crenel.operators.shards.chain import ChainColumn, ChainSettings, Form

_MICROSECONDS = len("2024-02-29 10:00:00.123456")
"""Characters of a time that a file of Parquet holds."""


def chain_settings(config: Config, found: Layout) -> ChainSettings | None:
    """Return the hash chain settings of a job's audit log; None without a chain."""
    if config.audit_chain is None:
        return None
    plan = found.plan
    types = {column.name: parse(column.sql_type) for column in found.sinks["audit"]}
    return ChainSettings(
        key=config.audit_chain,
        in_force=tuple(plan.values_in_force.values()),
        run=secrets.token_hex(8),
        version=code_version(),
        policy=policy_digest(config),
        hierarchies=hierarchies_digest(config),
        settings=settings_digest(config),
        null_text=plan.null_text,
        generalization=tuple(_generalized(column.name, types[column.name]) for column in plan.generalization.columns),
        members=tuple(_member(read, plan.types[read.name], config.sinks["released"]) for read in plan.members),
    )


def _member(read: Read, sql: ColumnType, sink: Mapping[str, str]) -> ChainColumn:
    """Return how the chain hashes a column of members, by its type and the sink of ``released``."""
    form, longest = _form(sql), read.longest
    if form == "time" and sink.get("format") == "parquet" and sink.get("parquet.timestamp.time.unit") != "nanos":
        longest = _MICROSECONDS
    return ChainColumn(read.name, form, longest, read.padded)


def _form(sql: ColumnType) -> Form:
    """Return how the chain hashes the values of a column of members, by its type."""
    if sql.name in (*INTEGERS, "DECIMAL"):
        return "decimal"
    if sql.name in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return "time"
    return "double" if sql.name == "DOUBLE" else "float" if sql.name == "FLOAT" else "text"


def _generalized(name: str, sql: ColumnType) -> ChainColumn:
    """Return how the chain hashes a column of the generalization, by its type in the sink."""
    if sql.name in INSTANTS:
        return ChainColumn(name, "double", unit=sql.unit)
    if sql.name == "DECIMAL":
        return ChainColumn(name, "double", scale=sql.scale)
    return ChainColumn(name, "float" if sql.name == "FLOAT" else "double" if _form(sql) != "text" else "text")
