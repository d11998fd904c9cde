"""Formats of sinks: options on which timestamps depend."""

from __future__ import annotations

from collections.abc import Mapping

_PARQUET = {"parquet.utc-timezone": "true", "parquet.write.int64.timestamp": "true"}


def with_utc(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a sink, by which files of Parquet hold timestamps in UTC.

    Flink's defaults shift them by the offset of the machine's zone, and those before 1970 by a second.
    """
    return (_PARQUET if options.get("format") == "parquet" else {}) | dict(options)
