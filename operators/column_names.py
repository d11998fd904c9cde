"""Names of columns in Flink that no word of SQL and no column of a user can clash with."""

from __future__ import annotations

from collections.abc import Mapping


def named(columns: Mapping[str, str]) -> dict[str, str]:
    """Type by the name of the column in Flink, which is its place: ``window`` is a word of SQL."""
    return {f"c{place}": kind for place, kind in enumerate(columns.values())}


CHAIN = {"h0": "LONG", "h1": "STRING", "h2": "STRING", "h3": "STRING", "h4": "STRING", "h5": "STRING"}
"""Type of each column of a release that is of the audit log's hash chain."""

CLOSING = "closing"
"""What a chained audit log has in the place of a kind in the record that ends it, which is of no release."""
