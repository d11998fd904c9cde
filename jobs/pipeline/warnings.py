"""Warnings about a job before its start, which depend on its source and Flink's settings."""

from __future__ import annotations

from collections.abc import Iterator

from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import cautions_of_leftovers, cautions_of_places
from crenel.jobs.config.start_positions import (
    IDLE_OF_ALL,
    STATE,
    cautions_of_idleness,
    cautions_of_rows,
    cautions_of_start,
)
from crenel.jobs.config.transactions import cautions_of_timeouts
from crenel.jobs.pipeline.environment import DEFAULTS
from crenel.jobs.pipeline.known_settings import unknown_settings
from crenel.jobs.pipeline.source_table import read_options

_INTERVAL = "execution.checkpointing.interval"


def cautions_of_job(tables: StreamTableEnvironment, config: Config) -> Iterator[str]:
    """Yield warnings, each with its field; the input tables of the configuration have been created.

    ``crenel check``, ``crenel run`` and ``flink run`` begin with the same ones. The effective settings of ``tables``
    count; unknown names are looked for in the configuration alone.
    """
    settings = tables.get_config()
    sources = read_options(tables, config)
    source = sources["source.ddl"]
    yield from unknown_settings(name for name in config.flink if name not in DEFAULTS)
    yield from cautions_of_places(sources, config.sinks)
    for field, options in sources.items():
        yield from cautions_of_rows(field, options)
    counted_by = config.counts_event_time
    if counted_by is None and config.policy.event_time_limit is not None:
        counted_by = "policy.event_time_limit"
    yield from cautions_of_idleness(source, counted_by, {IDLE_OF_ALL: settings.get(IDLE_OF_ALL, "")})
    if not any(settings.get(name, "") for name in STATE):
        yield from cautions_of_start(source)
        yield from cautions_of_leftovers(config.sinks)
    interval = get_gateway().jvm.org.apache.flink.util.TimeUtils.parseDuration(settings.get(_INTERVAL, "0"))
    yield from cautions_of_timeouts(config.sinks, interval.toMillis())
