"""Schemas of all sinks, from the configuration alone: names of columns, and types for reading them back.

``crenel.jobs.pipeline.layout`` derives the exact types of a sink, for which it asks Flink for those of the source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa

from crenel.anonymity.model.attributes import Numeric
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.sink_columns import CHAINED, SUMMARY_COLUMNS, Column, further_records, in_force, records
from crenel.jobs.pipeline.sql_types import SqlType, parse

_READ = {
    "INT": pa.int64(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "TIMESTAMP_LTZ(3)": pa.int64(),
}
_UNKNOWN: defaultdict[str, SqlType] = defaultdict(lambda: parse("BIGINT"))
"""Placeholder types of the source's columns, on which no name depends."""


def written(config: Config) -> dict[str, pa.Schema]:
    """Return the columns of each sink of a configuration, in their order, with types as in ``Outputs``."""
    policy = config.policy
    generalization = [Column(name, kind, "") for name, kind in _generalization(config)]
    of_all = records(policy, _UNKNOWN, tuple(in_force(config.privacy, config.sampling_and_noise)), generalization)
    own = further_records(config.algorithm.outputs, policy, _UNKNOWN)
    if config.audit_chain is not None:
        of_all["audit"] += CHAINED
    sinks = {**of_all, "summary": SUMMARY_COLUMNS, **own}
    found = {sink: pa.schema([(c.name, _READ[c.sql_type]) for c in columns]) for sink, columns in sinks.items()}
    pseudonym = () if policy.pseudonym is None else (policy.pseudonym.column,)
    members = [(name, pa.string()) for name in (*policy.members, *pseudonym)]
    found["released"] = pa.schema([*((c.name, _READ[c.sql_type]) for c in generalization), *members])
    return found


def _generalization(config: Config) -> Iterator[tuple[str, str]]:
    """Yield name and type of each column that the members of a release share."""
    for attribute in config.policy.quasi_identifiers:
        if not isinstance(attribute, Numeric):
            yield attribute.name, "STRING"
        elif config.algorithm.representative(config.parameters):
            yield attribute.name, "DOUBLE"
        else:
            yield f"{attribute.name}_min", "DOUBLE"
            yield f"{attribute.name}_max", "DOUBLE"
