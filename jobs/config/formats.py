"""Formats of sinks: options on which days and timestamps depend, and types that a format does not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_PARQUET = {"parquet.utc-timezone": "true", "parquet.write.int64.timestamp": "true"}
_TIMES = r"\b(?:DATE|TIME|TIMESTAMP|TIMESTAMP_LTZ)\b"
_INSTANTS = r"\bTIMESTAMP_LTZ\b"
_QUOTED = re.compile(r"`[^`]*`")


def with_utc(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a sink, by which files of Parquet hold timestamps in UTC.

    Flink's defaults shift them by the offset of the machine's zone, and those before 1970 by a second.
    """
    return (_PARQUET if options.get("format") == "parquet" else {}) | dict(options)


def unfit_times(sink: str, options: Mapping[str, str], columns: Mapping[str, str]) -> Iterator[str]:
    """Yield a problem where the format of a sink holds no column of such a time, so that the job would fail.

    Parameters
    ----------
    options : of the connector
    columns : SQL types by name
    """
    option = "value.format" if "value.format" in options else "format"
    form, legacy = options.get(option), f"{option.removesuffix('format')}avro.timestamp_mapping.legacy"
    field, types = option, _INSTANTS
    if form == "protobuf":
        types, remedy = _TIMES, "convert it in source.query to a number, such as BIGINT of epoch milliseconds"
    elif form == "avro-confluent" or (form == "avro" and options.get("connector") == "filesystem"):
        remedy = "CAST it to TIMESTAMP(3) in source.query, and an event time to BIGINT of epoch milliseconds"
    elif form == "avro" and options.get(legacy, "true").lower() != "false":
        field, remedy = legacy, "set this to false; a TIMESTAMP then is a local-timestamp of Avro"
    else:
        return
    for name, kind in columns.items():
        if found := re.search(types, _QUOTED.sub("", kind)):
            yield f"sinks.{sink}.{field}: Flink's format {form} has no {found[0]}, the type of {name!r}; {remedy}"
            return
