"""Names of Flink columns that clash neither with SQL keywords nor with columns of a user."""

from __future__ import annotations

from collections.abc import Mapping


def named(columns: Mapping[str, str]) -> dict[str, str]:
    """Return types by positional column name, because a name such as ``window`` is an SQL keyword."""
    return {f"c{place}": kind for place, kind in enumerate(columns.values())}


CHAIN = {"h0": "LONG", "h1": "STRING", "h2": "STRING", "h3": "STRING", "h4": "STRING", "h5": "STRING"}
"""Types of a release's columns for the hash chain of the audit log."""

CLOSING = "closing"
"""Kind of the record that ends a chained audit log and belongs to no release."""
