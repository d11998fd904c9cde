"""Stored frequencies of sensitive values.

They are written after each step and restored (``crenel.anonymity.privacy_models.value_frequencies``).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crenel.anonymity.buffer.well_formed import require
from crenel.anonymity.privacy_models.value_frequencies import ENTRY_VALUES, MOST_SEEN, ValueFrequencies, name_rows
from crenel.state.codec import readable
from crenel.state.columns import ColumnChange, add_converter
from crenel.state.shard import SeenValues

SEEN = "seen"
"""The kind of the stored entries that hold frequencies."""

_ENTRIES = MOST_SEEN // ENTRY_VALUES
"""Entries per column."""


class StoredSeen:
    """Stored entries of the frequencies, and their changes.

    Parameters
    ----------
    seen : empty frequencies, which receive the stored ones
    stored : entries by key
    shard : name of the shard in errors

    Raises
    ------
    crenel.state.codec.StateError
        The entries are damaged, or do not belong together.
    """

    def __init__(self, seen: ValueFrequencies, stored: Mapping[int, bytes], shard: str) -> None:
        follows = {key for key in stored if 0 <= key < len(seen.follows) * _ENTRIES and seen.follows[key // _ENTRIES]}
        self._obsolete: dict[int, bytes | None] = dict.fromkeys(stored.keys() - follows)
        entries = {key: SeenValues.from_bytes(stored[key], f"{shard}, entry {key}") for key in sorted(follows)}
        with readable(f"seen state of {shard}"):
            for key, entry in entries.items():
                _restore(seen, key, entry)
            require(not entries or name_rows(seen), "values")

    def changes(self, seen: ValueFrequencies) -> dict[str, dict[int, bytes | None]]:
        """Return the entries to write after a step, by kind.

        The result is empty where no column is, or was, compared with the stream.
        """
        entries, self._obsolete = self._obsolete, {}
        for a, entry in np.argwhere(seen.changed).tolist():
            rows = slice(entry * ENTRY_VALUES, min((entry + 1) * ENTRY_VALUES, int(seen.used[a])))
            values = SeenValues(seen.code[a, rows], seen.amount[a, rows], seen.total[a : a + 1])
            entries[a * _ENTRIES + entry] = values.to_bytes()
        seen.changed[:] = False
        return {SEEN: entries} if entries else {}


def _restore(seen: ValueFrequencies, key: int, entry: SeenValues) -> None:
    a, start = key // _ENTRIES, key % _ENTRIES * ENTRY_VALUES
    count = len(entry.code)
    require(entry.code.shape == entry.amount.shape == (count,) and count <= ENTRY_VALUES, "values")
    require(entry.code.dtype == np.uint64 and entry.amount.dtype == np.int64, "values")
    require(entry.total.shape == (1,) and bool((entry.amount >= 0).all()), "amounts")
    require(start == seen.used[a], "order")
    seen.code[a, start : start + count], seen.amount[a, start : start + count] = entry.code, entry.amount
    seen.used[a] = start + count
    if start == 0:
        seen.total[a] = entry.total[0]
    require(int(seen.amount[a].sum()) <= seen.total[a], "total")


def _converted(entries: Mapping[int, bytes], change: ColumnChange, where: str) -> dict[int, bytes]:
    """Return the entries under other sensitive columns: their keys hold the position of a column."""
    before, after = change.before.sensitive, change.after.sensitive
    indices = {index: after.index(name) for index, name in enumerate(before) if name in after}
    return {
        indices[key // _ENTRIES] * _ENTRIES + key % _ENTRIES: blob
        for key, blob in entries.items()
        if key // _ENTRIES in indices
    }


add_converter(SEEN, _converted)
