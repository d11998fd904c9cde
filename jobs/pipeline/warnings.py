"""Warnings about a job before its start, which depend on its source and Flink's settings."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZipFile

from pyflink.find_flink_home import _find_flink_home
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from crenel.jobs.config.kafka import registry_warnings, timeout_warnings
from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import leftover_warnings, path_warnings
from crenel.jobs.config.records import AvroRecords, ProtobufRecords
from crenel.jobs.config.start_positions import (
    IDLE_OF_ALL,
    STATE,
    idleness_warnings,
    row_warnings,
    start_warnings,
)
from crenel.jobs.pipeline.environment import DEFAULTS
from crenel.jobs.pipeline.source_table import read_options

_INTERVAL = "execution.checkpointing.interval"

_OPTION = b"/ConfigOption;"
_TEXT = 1
"""Tag of a text in a class file (Java Virtual Machine Specification, 4.4.7)."""

_OPEN = tuple(
    f"{name}."
    for name in (
        *("s3", "s3a", "gs", "oss", "abfs", "wasb", "fs", "dfs", "presto", "hive", "hadoop", "flink.hadoop", "azure"),
        *(f"{kind}.{part}" for kind in ("metrics", "traces", "events") for part in ("reporter", "scope.variables")),
        *("state.backend.rocksdb.metrics", "state.backend.forst.metrics"),
        *("env", "kubernetes", "yarn", "containerized", "security.delegation.token.provider"),
    )
)
"""Prefixes under which file systems, reporters and platforms read names of their own."""


def job_warnings(tables: StreamTableEnvironment, config: Config) -> Iterator[str]:
    """Yield warnings, each with its field; the input tables of the configuration have been created.

    ``crenel check``, ``crenel run`` and ``flink run`` begin with the same ones. The effective settings of ``tables``
    count; unknown names are looked for in the configuration alone.
    """
    settings = tables.get_config()
    sources = read_options(tables, config)
    source = sources[config.source.field]
    yield from unknown_settings(name for name in config.flink if name not in DEFAULTS)
    yield from path_warnings(sources, config.sinks)
    for field, options in sources.items():
        yield from row_warnings(field, options)
    records = config.source.records
    if isinstance(records, AvroRecords | ProtobufRecords) and records.registry is not None:
        yield from registry_warnings(records.registry.field, records.registry.url)
    counted_by = config.counts_event_time
    if counted_by is None and config.policy.event_time_limit is not None:
        counted_by = "policy.event_time_limit"
    yield from idleness_warnings(source, counted_by, {IDLE_OF_ALL: settings.get(IDLE_OF_ALL, "")})
    if not any(settings.get(name, "") for name in STATE):
        yield from start_warnings(source)
        yield from leftover_warnings(config.sinks)
    interval = get_gateway().jvm.org.apache.flink.util.TimeUtils.parseDuration(settings.get(_INTERVAL, "0"))
    yield from timeout_warnings(config.sinks, interval.toMillis())


def unknown_settings(names: Iterable[str]) -> Iterator[str]:
    """Yield a message for each setting without an option in this Flink.

    A name is known if a class that uses options contains it as a text, or a part of it that ends before a dot: the name
    of a map option. Flink keeps no list of its options, and asking Java for each of 1,200 takes several seconds.
    """
    unknown = {name: _constants(name) for name in names if not name.startswith(_OPEN)}
    for content in _option_classes() if unknown else ():
        unknown = {name: texts for name, texts in unknown.items() if not any(text in content for text in texts)}
        if not unknown:
            return
    for name in unknown:
        yield f"flink.{name}: is no setting of this version of Flink, which ignores unknown names; correct the name"


def _constants(name: str) -> list[bytes]:
    """Return a name and its beginnings of at least two parts, each as class files hold a text: tag, length, bytes."""
    parts = name.split(".")
    texts = [".".join(parts[:length]).encode() for length in range(2, len(parts) + 1)]
    return [struct.pack(">BH", _TEXT, len(text)) + text for text in texts]


def _option_classes() -> Iterator[bytes]:
    """Yield the content of each class of Flink that uses options."""
    home = Path(_find_flink_home())
    for jar in sorted([*home.glob("lib/flink-*.jar"), *home.glob("opt/flink-python*.jar")]):
        with ZipFile(jar) as file:
            for name in file.namelist():
                if name.startswith("org/apache/flink/") and name.endswith(".class") and "shaded" not in name:
                    content = file.read(name)
                    if _OPTION in content:
                        yield content
