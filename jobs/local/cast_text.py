"""Conversion of text columns, as sinks write them, to typed columns."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from crenel.jobs.local.sink_files import OutputsError


def typed(place: str, text: Mapping[str, pa.ChunkedArray] | None, schema: pa.Schema) -> pa.Table:
    """Return a typed table from columns of text; an empty one from None.

    Whole numbers may also have the form of times (``2024-03-01 08:00:00.5Z``, with a T or a blank), and become epoch
    milliseconds.

    Raises
    ------
    OutputsError
        Names ``place`` and a column that cannot be read as its type; the message holds no value.
    """
    if text is None:
        return schema.empty_table()
    columns = []
    for field in schema:
        try:
            columns.append(_typed(text[field.name], field.type))
        except pa.ArrowInvalid:
            kind = "numbers" if field.type == pa.float64() else "whole numbers"
            raise OutputsError(
                f"{place}: the column {field.name!r} has values that are no {kind}; these are outputs of another policy"
            ) from None
    return pa.Table.from_arrays([pa.chunked_array(c) for c in columns], schema=schema)


def _typed(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if kind == pa.string():
        return text
    if kind != pa.int64():
        return pc.cast(text, kind)
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        # Casting to text and Kafka's formats may omit the zone, which then is UTC.
        zoned = pc.replace_substring_regex(text, r"(\d)$", r"\1Z")
        return pc.cast(pc.cast(zoned, pa.timestamp("ms", "UTC")), kind)
