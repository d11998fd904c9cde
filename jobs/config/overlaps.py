"""Checks for outputs that would mix with each other, with the job's input, or with Flink's state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product

from crenel.jobs.config.connectors import CONNECTORS, Connector, Options, locations
from crenel.jobs.config.flink_settings import FOLDERS

_EQUAL = {
    "topic:": "names a topic of",
    "topic-pattern:": "names a topic of",
    "table:": "names the table of",
    "options:": "has the same options as",
}
"""Relation of two equal locations, by their root."""

_SHARED = (
    "readers of one output receive the records of the other; give each output a folder, topic or table of its own, and "
    "no folder inside another"
)
_RAW = "raw records and the output would mix; give the output a place outside of the source"
_REQUESTS = "requests to forget and the output would mix; give the output a place of its own"
_READ_TWICE = (
    "each request would be read as a record too; give the requests a place of their own, or select them in "
    "source.forget.query"
)
_STATE = (
    "the output and Flink's state, which holds buffered records, would mix; give each a folder outside of the other"
)
_FORGET = "source.forget.ddl"


def find_shared_sinks(sinks: Mapping[str, Options]) -> Iterator[str]:
    """Yield a message for each sink that stores its records in the place of an earlier one.

    Parameters
    ----------
    sinks : options of the connector by output
    """
    stored = _stored(sinks)
    for number, field in enumerate(stored):
        earlier = {other: stored[other] for other in [*stored][:number]}
        yield from islice(_mixed({field: stored[field]}, earlier, _SHARED), 1)


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
    forget : options of the table ``forget``, which ``crenel forget`` writes to; None: there is none
    is_filtered : whether ``source.forget.query`` selects the requests, so that both tables may read the same topic
    field : that names the table ``source``
    """
    stored, records, requests = _stored(sinks), {field: source}, {_FORGET: forget or {}}
    yield from _mixed(stored, records, _RAW)
    yield from _mixed(stored, requests, _REQUESTS)
    if not is_filtered:
        yield from _mixed(requests, records, _READ_TWICE)


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
    state = {f"flink.{name}": {"path": settings[name]} for name in FOLDERS if settings.get(name)}
    yield from _mixed(_stored(sinks) | {_FORGET: forget or {}}, state, _STATE)


def _stored(sinks: Mapping[str, Options]) -> dict[str, Options]:
    """Return the options of the sinks that keep records, by field."""
    kept = ((name, CONNECTORS.get(options["connector"], Connector()), options) for name, options in sinks.items())
    return {f"sinks.{name}": options for name, connector, options in kept if connector.stores}


def _mixed(tables: Mapping[str, Options], others: Mapping[str, Options], consequence: str) -> Iterator[str]:
    """Yield a message for each two tables, by field, of which one keeps its records in the location of the other."""
    for (field, options), (other, of_other) in product(tables.items(), others.items()):
        for (option, location), (other_option, other_location) in product(locations(options), locations(of_other)):
            if relation := _relation(location, other_location):
                lead = f"{field}: {option!r}" if field.endswith(".ddl") else f"{_mention(field, option)}:"
                yield f"{lead} {relation} {_mention(other, other_option)}, so {consequence}"
                break


def _mention(field: str, option: str) -> str:
    """Return the name of an option within a message."""
    if field.endswith(".ddl"):
        return f"{option!r} of {field}"
    return f"{field}.{option}" if field.startswith("sinks.") else field


def _relation(location: tuple[str, ...], other: tuple[str, ...]) -> str:
    """Return the relation of a location to another; empty for disjoint ones."""
    if location == other:
        return _EQUAL.get(location[0], "is the same path as")
    if _matches(location, other) or _matches(other, location):
        return "names a topic of"
    if location[: len(other)] == other:
        return "lies inside"
    return "contains" if other[: len(location)] == location else ""


def _matches(location: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether a location is a pattern of Java that matches the topic of another, as far as Python reads it."""
    try:
        return (location[0], other[0]) == ("topic-pattern:", "topic:") and bool(
            location[1] == other[1] and re.fullmatch(location[2], other[2])
        )
    except re.error:
        return False
