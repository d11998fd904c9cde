"""Checks for outputs that would mix with each other, with the job's input, or with Flink's state."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from crenel.jobs.config.catalogs import TABLE, split_path
from crenel.jobs.config.flink_settings import FOLDERS

Options: TypeAlias = Mapping[str, str]

_KEEP_NOTHING = ("blackhole", "print")
"""Connectors that several outputs may share, as they store no record."""

_PATHS = ("path", "table-path")
"""Options by which connectors of files and of lakehouse tables name a folder."""

_KAFKA = ("kafka", "upsert-kafka")

_ALIASES = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "abfss": "abfs", "wasbs": "wasb"}
"""Alternative schemes for the same store in Flink's file systems."""

_URI = re.compile(r"(?:(?P<scheme>[^/:]+):)?(?://(?P<authority>[^/]*)(?=/|$))?(?P<path>.*)", re.DOTALL)


@dataclass(frozen=True)
class _Place:
    """Location of an output, an input or state.

    Attributes
    ----------
    field : of the configuration, such as ``sinks.audit`` or ``source.ddl``
    options : of the connector
    """

    field: str
    options: Options

    def lead(self, option: str) -> str:
        """Return the beginning of a message about an option."""
        return f"{self.field}: {option!r}" if self._is_statement else f"{self.mention(option)}:"

    def mention(self, option: str) -> str:
        """Return the name of an option within a message."""
        if self._is_statement:
            return f"{option!r} of {self.field}"
        return f"{self.field}.{option}" if self.field.startswith("sinks.") else self.field

    @property
    def _is_statement(self) -> bool:
        return self.field.endswith(".ddl")


def find_shared_sinks(sinks: Mapping[str, Options]) -> Iterator[str]:
    """Yield a message for each sink that stores its records in the place of an earlier one.

    Parameters
    ----------
    sinks : options of the connector by output
    """
    sink_paths = _paths(sinks)
    for number, place in enumerate(sink_paths):
        relation = next(_relations(place, sink_paths[:number]), None)
        if relation is not None:
            yield (
                f"{relation}, so readers of one output receive the records of the other; give each output a folder, "
                "topic or table of its own, and no folder inside another"
            )


def find_sinks_in_inputs(
    sinks: Mapping[str, Options],
    source: Options,
    forget: Options | None,
    *,
    is_filtered: bool,
    field: str = "source.ddl",
) -> Iterator[str]:
    """Yield a message for each sink that stores its records in a place that the job reads.

    Parameters
    ----------
    sinks : options of the connector by output
    source : options of the table ``source``
    field : that names the table ``source``
    forget : options of the table ``forget``, which ``crenel forget`` writes to; None: there is none
    is_filtered : whether ``source.forget.query`` selects the requests, so that both tables may read the same topic
    """
    given, requests = _Place(field, source), _Place("source.forget.ddl", forget or {})
    for place in _paths(sinks):
        for relation in _relations(place, [given]):
            yield (
                f"{relation}, so raw records and the output would mix; give the output a place outside of the source"
            )
        for relation in _relations(place, [requests]):
            yield (f"{relation}, so requests to forget and the output would mix; give the output a place of its own")
    for relation in () if is_filtered else _relations(requests, [given]):
        yield (
            f"{relation}, so each request would be read as a record too; give the requests a place of their own, or "
            "select them in source.forget.query"
        )


def find_sinks_in_state(
    sinks: Mapping[str, Options], settings: Mapping[str, str], forget: Options | None = None
) -> Iterator[str]:
    """Yield a message for each output that lies in a folder of checkpoints or savepoints, or contains one.

    Parameters
    ----------
    sinks : options of the connector by output
    settings : of Flink, from the configuration, from ``flink run -D`` or from the cluster's file
    forget : options of the table ``forget``; None: unknown
    """
    state = [_Place(f"flink.{name}", {"path": settings[name]}) for name in FOLDERS if settings.get(name)]
    for place in (*_paths(sinks), _Place("source.forget.ddl", forget or {})):
        for relation in _relations(place, state):
            yield (
                f"{relation}, so the output and Flink's state, which holds buffered records, would mix; give each a "
                "folder outside of the other"
            )


def locate(path: str) -> tuple[str, ...]:
    """Return the parts of a path as Flink reads it, the root first; equal for all spellings of one place.

    Flink takes a path literally, also in a URI: ``%20`` is no space. Symbolic links of this machine are resolved.
    """
    found = _URI.fullmatch(path)
    scheme, authority, rest = (found["scheme"], found["authority"], found["path"]) if found else (None, None, path)
    scheme = (scheme or "file").lower()
    # Flink removes '..' before the file system follows a link.
    rest = posixpath.normpath(re.sub("/+", "/", rest)) if rest else "/"
    if scheme == "file":
        root, rest = "file:", os.path.realpath(rest) if "\0" not in rest else rest
    else:
        root = f"{_ALIASES.get(scheme, scheme)}://{(authority or '').lower()}"
    return (root, *(part for part in rest.split("/") if part))


def _paths(sinks: Mapping[str, Options]) -> list[_Place]:
    return [
        _Place(f"sinks.{name}", options) for name, options in sinks.items() if options["connector"] not in _KEEP_NOTHING
    ]


def _relations(place: _Place, others: Sequence[_Place]) -> Iterator[str]:
    """Yield the relations of a place to others, at most one for each, with both of their fields."""
    for other in others:
        found = _relation(place.options, other.options)
        if found is not None:
            option, relation, of_other = found
            yield f"{place.lead(option)} {relation} {other.mention(of_other)}"


def _relation(one: Options, other: Options) -> tuple[str, str, str] | None:
    """Return an option of each place and their relation; None for disjoint places."""
    if one.get("connector") in _KAFKA and other.get("connector") in _KAFKA and _share_topic(one, other):
        return _topic_option(one), "names a topic of", _topic_option(other)
    table = _TABLE_OPTIONS.get(one.get("connector", ""))
    if table is not None and one.get("connector") == other.get("connector") and _share_table(one, other):
        return table, "names the table of", table
    for (option, path), (of_other, other_path) in product(_folders(one), _folders(other)):
        if path == other_path:
            return option, "is the same path as", of_other
        if path[: len(other_path)] == other_path:
            return option, "lies inside", of_other
        if other_path[: len(path)] == path:
            return option, "contains", of_other
    if one and one == other and one.get("connector") not in (*_KAFKA, *_TABLE_OPTIONS):
        return "connector", "has the same options as", "connector"
    return None


def _folders(options: Options) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the folders of a table, each with its option."""
    for option in _PATHS:
        if options.get(option):
            yield option, locate(options[option])
    parts = split_path(options.get(TABLE, ""))
    if options.get("warehouse") and parts is not None:
        _, database, table = parts
        is_plain = options.get("connector") == "iceberg" and options.get("catalog-type", "").lower() == "hadoop"
        yield TABLE, (*locate(options["warehouse"]), database if is_plain else f"{database}.db", table)
    # A table without a name gets the name of its sink, which is unique.
    if options.get("connector") == "iceberg" and options.get("warehouse") and options.get("catalog-table"):
        database = options.get("catalog-database", _ICEBERG_DATABASE)
        folder = database if options.get("catalog-type", "").lower() == "hadoop" else f"{database}.db"
        yield "warehouse", (*locate(options["warehouse"]), folder, options["catalog-table"])


_TABLE_OPTIONS = {"jdbc": "table-name", "iceberg": "catalog-table"}
"""The option that names a table, by connector."""

_ICEBERG_DATABASE = "default"
"""Default database of an Iceberg table."""


def _share_table(one: Options, other: Options) -> bool:
    """Return whether two tables of one connector are the same."""
    option = _TABLE_OPTIONS[one["connector"]]
    if not one.get(option) or one[option].casefold() != other.get(option, "").casefold():
        return False
    if one["connector"] == "jdbc":
        urls = [options.get("url", "").partition("?")[0].rstrip("/") for options in (one, other)]
        return urls[0] == urls[1]
    if one.get("catalog-database", _ICEBERG_DATABASE) != other.get("catalog-database", _ICEBERG_DATABASE):
        return False
    both = [name for name in ("uri", "warehouse") if one.get(name) and other.get(name)]
    if "uri" in both and not _addresses(one, "uri") & _addresses(other, "uri"):
        return False
    if "warehouse" in both and locate(one["warehouse"]) != locate(other["warehouse"]):
        return False
    return bool(both) or one.get("catalog-name") == other.get("catalog-name")


def _share_topic(one: Options, other: Options) -> bool:
    """Return whether two tables of Kafka have a topic in common."""
    servers = "properties.bootstrap.servers"
    if not _addresses(one, servers) & _addresses(other, servers):
        return False
    patterns = [options.get("topic-pattern", "") for options in (one, other)]
    return (
        not _topics(one).isdisjoint(_topics(other))
        or any(_matches(patterns[0], topic) for topic in _topics(other))
        or any(_matches(patterns[1], topic) for topic in _topics(one))
        or ("" not in patterns and patterns[0] == patterns[1])
    )


def _topics(options: Options) -> set[str]:
    return {topic.strip() for topic in options.get("topic", "").split(";")} - {""}


def _topic_option(options: Options) -> str:
    return "topic" if _topics(options) else "topic-pattern"


def _matches(pattern: str, topic: str) -> bool:
    """Return whether a Java pattern matches a topic, as far as Python understands the pattern."""
    try:
        return bool(pattern) and re.fullmatch(pattern, topic) is not None
    except re.error:
        return False


def _addresses(options: Options, name: str) -> set[str]:
    """Return the set of hosts in a comma-separated list."""
    return {address.strip().rstrip("/").lower() for address in options.get(name, "").split(",")} - {""}
