"""Columns of the sinks without members, and the definition of a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from crenel.anonymity.algorithm import Output
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.jobs.pipeline.sql_types import SqlType, quote
from crenel.operators.column_names import CHAIN, named

Plain: TypeAlias = Literal["INT", "LONG", "DOUBLE", "BOOLEAN", "STRING"]
"""A type of the operator's rows, by its name in ``pyflink.common.Types``."""

SQL: dict[Plain, str] = {"INT": "INT", "LONG": "BIGINT", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOLEAN", "STRING": "STRING"}
"""The same types in SQL."""


@dataclass(frozen=True)
class Column:
    """A column of a sink.

    Attributes
    ----------
    name : visible to the user
    sql_type : its type
    expression : its value, over the columns of the operator's rows
    """

    name: str
    sql_type: str
    expression: str

    @property
    def declaration(self) -> str:
        """Declaration for CREATE TABLE."""
        return f"{quote(self.name)} {self.sql_type}"

    @property
    def selection(self) -> str:
        """Expression for SELECT."""
        return f"{self.expression} AS {quote(self.name)}"


def arrays(columns: tuple[tuple[str, Plain], ...]) -> dict[str, str]:
    """Return the SQL array type of each column of the operator's rows."""
    return {name: f"ARRAY<{SQL[kind]}>" for name, kind in columns}


def written_null(options: Mapping[str, str]) -> str:
    """Return the text by which a sink writes a missing value, if its format may write a value as the same text."""
    literals = [value for name, value in options.items() if name.endswith("csv.null-literal")]
    return literals[0] if literals else ""


SUMMARY_COLUMNS = (
    Column("shard", "INT", "shard"),
    Column("name", "STRING", "name"),
    Column("amount", "DOUBLE", "amount"),
)


CHAINED = tuple(
    Column(name, SQL[cast(Plain, kind)], row)
    for name, (row, kind) in zip(
        ("chain_start", "chain_version", "chain_policy", "chain_hierarchies", "chain_members", "chain"),
        CHAIN.items(),
        strict=True,
    )
)
"""Columns of the audit log's hash chain, after all others."""


def in_force(privacy: Privacy, noise: SamplingAndNoise | None) -> Iterator[Column]:
    """Yield the audit columns that state the privacy models and mechanisms in force, equal in each row.

    A policy may change when a job is restored, so each release states its own.
    """
    for name, value in promised_numbers(privacy, noise).items():
        kind = "BIGINT" if isinstance(value, int) else "DOUBLE"
        yield Column(name, kind, f"CAST({'NULL' if value is None else repr(value)} AS {kind})")


def promised_numbers(privacy: Privacy, noise: SamplingAndNoise | None) -> dict[str, float | None]:
    """Return the parameters in force, by audit column in order; None where one is not configured."""
    found: dict[str, float | None] = dict(privacy.in_force)
    found["sample_rate"] = None if noise is None else noise.sample_rate
    found["phi"] = None if noise is None else noise.phi
    return found


def records(
    policy: Policy, types: Mapping[str, SqlType], in_force: tuple[Column, ...], generalization: list[Column]
) -> dict[str, tuple[Column, ...]]:
    """Return the columns of the sinks that every algorithm has and that hold no members."""
    event_time = _event_time(policy, types, "event_ms")
    shard = Column("shard", "INT", "shard")
    reason = Column("reason", "STRING", "reason")
    reference = [] if policy.reference is None else [Column("reference", "STRING", "reference")]
    return {
        "audit": (
            Column("release_id", "BIGINT", "release_id"),
            shard,
            event_time,
            Column("kind", "STRING", "kind"),
            Column("subjects", "BIGINT", "subjects"),
            Column("tuples", "BIGINT", "tuples"),
            *(Column(f"diversity_{name}", "BIGINT", f"d{i}") for i, name in enumerate(policy.sensitive)),
            Column("loss", "DOUBLE", "loss"),
            *_of_noise(policy),
            *in_force,
            *generalization,
        ),
        "suppressed": (reason, shard, Column("position", "BIGINT", "seq"), event_time),
        "forgotten": (
            Column("code", "STRING", "code"),
            shard,
            event_time,
            Column("time", "TIMESTAMP_LTZ(3)", "TO_TIMESTAMP_LTZ(clock_ms, 3)"),
            Column("tuples", "BIGINT", "tuples"),
        ),
        "rejected": (Column("column", "STRING", "col"), reason, event_time, *reference),
    }


def _of_noise(policy: Policy) -> Iterator[Column]:
    """Yield the audit columns on the noise within a release."""
    if policy.noised:
        yield Column("linkable", "BIGINT", "linked")
    for i, attribute in enumerate(policy.noised):
        yield Column(f"noise_error_{attribute.name}", "DOUBLE", f"e{i}")
        yield Column(f"noise_expected_{attribute.name}", "DOUBLE", f"x{i}")


def noise_types(policy: Policy) -> tuple[tuple[str, Plain], ...]:
    """Return the operator's columns behind those of ``_of_noise``."""
    errors: list[tuple[str, Plain]] = [(f"{kind}{i}", "DOUBLE") for i in range(len(policy.noised)) for kind in "ex"]
    return (("linked", "LONG"), *errors) if policy.noised else ()


def further_records(
    outputs: tuple[Output, ...], policy: Policy, types: Mapping[str, SqlType]
) -> dict[str, tuple[Column, ...]]:
    """Return the columns of the sinks of an algorithm's own outputs."""
    found = {}
    for output in outputs:
        rows = zip(output.columns, declared(output.columns).items(), strict=True)
        found[output.name] = tuple(
            _event_time(policy, types, row) if name == "event_time" else Column(name, sql_type, row)
            for name, (row, sql_type) in rows
        )
    return found


def declared(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the SQL type of each column of an algorithm's own output, by its internal name."""
    return {row: SQL[cast(Plain, kind)] for row, kind in named(columns).items()}


def _event_time(policy: Policy, types: Mapping[str, SqlType], row: str) -> Column:
    """Return event time in the source's type, from a column of milliseconds."""
    if policy.event_time is not None and types[policy.event_time].name == "TIMESTAMP_LTZ":
        return Column("event_time", "TIMESTAMP_LTZ(3)", f"TO_TIMESTAMP_LTZ({row}, 3)")
    return Column("event_time", "BIGINT", row)
