"""Warnings about a job before its start, which depend on its source and Flink's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZipFile

from pyflink.find_flink_home import _find_flink_home
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from crenel.jobs.config.kafka import cautions_of_timeouts
from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import cautions_of_leftovers, cautions_of_places
from crenel.jobs.config.start_positions import (
    IDLE_OF_ALL,
    STATE,
    cautions_of_idleness,
    cautions_of_rows,
    cautions_of_start,
)
from crenel.jobs.pipeline.environment import DEFAULTS
from crenel.jobs.pipeline.source_table import read_options

_INTERVAL = "execution.checkpointing.interval"

_CLASS = re.compile(r"org/apache/flink/(?!.*shaded)[\w/]+\.class")
_OPTION = b"/ConfigOption;"
_CONSTANT = re.compile(rb"\x01(..)([a-z][a-z0-9-]*(?:\.[A-Za-z0-9_-]+)+)", re.DOTALL)
"""A text in a class file (Java Virtual Machine Specification, 4.4.7): a tag, two bytes of length, and the bytes."""

_OPEN = re.compile(
    r"(?:s3a?|gs|oss|abfs|wasb|fs|dfs|presto|hive|hadoop|flink\.hadoop|azure)\."
    r"|(?:metrics|traces|events)\.(?:reporter|scope\.variables)\."
    r"|state\.backend\.(?:rocksdb|forst)\.metrics\."
    r"|(?:env|kubernetes|yarn|containerized)\."
    r"|security\.delegation\.token\.provider\."
)
"""Prefixes under which file systems, reporters and platforms read names of their own."""


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


def unknown_settings(names: Iterable[str]) -> Iterator[str]:
    """Yield a message for each setting without an option in this Flink, which ignores it silently, with a suggestion.

    A known name, followed by a dot and a suffix, counts as an entry of a map option.
    """
    asked = {name: _and_above(name) for name in names if not _OPEN.match(name)}
    known: set[str] = set()
    for option in _options() if asked else ():
        known.add(option)
        asked = {name: those for name, those in asked.items() if option not in those}
        if not asked:
            return
    for name in asked:
        yield (
            f"flink.{name}: is no setting of this Flink's{meant(name, sorted(known))}, and Flink says nothing of one "
            "that it does not know"
        )


def _and_above(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}


def _options() -> Iterator[str]:
    """Yield the names of options, current and deprecated: all strings of that form in classes that use options.

    Asking Java for each option takes a second or two, and misses classes that cannot be loaded here.
    """
    home = Path(_find_flink_home())
    for jar in sorted([*home.glob("lib/flink-*.jar"), *home.glob("opt/flink-python*.jar")]):
        with ZipFile(jar) as file:
            for name in filter(_CLASS.fullmatch, file.namelist()):
                content = file.read(name)
                if _OPTION in content:
                    for length, text in _CONSTANT.findall(content):
                        if len(text) == int.from_bytes(length, "big"):
                            yield text.decode()
