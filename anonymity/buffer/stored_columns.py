"""Restore of a shard whose pass-through and sensitive columns differ from the stored ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext
from crenel.anonymity.model.fingerprint import require_same
from crenel.state.columns import ColumnChange, StoredColumns, converted
from crenel.state.shard import Changes, Inventory, StoredShard, entries_of, require_complete

RestoredT = TypeVar("RestoredT")


def restored(
    algorithm: Algorithm, context: ShardContext, stored: StoredShard, where: str
) -> tuple[Shard, Changes | None]:
    """Restore a shard as ``restored_by`` does, with the function of its algorithm."""
    return restored_by(algorithm.restored, algorithm, context, stored, where)


def restored_by(
    restore: Callable[[ShardContext, StoredShard, str], RestoredT],
    algorithm: Algorithm,
    context: ShardContext,
    stored: StoredShard,
    where: str,
) -> tuple[RestoredT, Changes | None]:
    """Restore a shard or an admission by ``restore``, also under other pass-through and sensitive columns.

    A column that is new is null in all buffered tuples, and one that is gone is dropped from them.

    Returns
    -------
    shard : the shard or admission
    changes : entries under the new columns, to be stored before the first step; None where the columns are the same

    Raises
    ------
    crenel.state.codec.StateError
        The bytes are damaged or of an unknown version, or do not belong together.
    crenel.anonymity.model.errors.RestoreError
        A property that cannot change differs from the stored one; the message names the fields.
    """
    changes = _under(algorithm, context, stored, where)
    return restore(context, stored if changes is None else stored.after(changes), where), changes


def _under(algorithm: Algorithm, context: ShardContext, stored: StoredShard, where: str) -> Changes | None:
    _, made = algorithm.state
    state = made.from_bytes(stored.shard, where)
    before, after = StoredColumns.of(state.members), StoredColumns.of(context.stored_members)
    if before == after:
        return None
    shard = f"shard {state.shard}" + (f" ({where})" if where else "")
    require_same(state.fingerprint, context.fingerprint, shard, before.roles)
    entries = entries_of(stored, (), state.entries)
    require_complete(state.entries, entries, shard)
    change = ColumnChange(before, after)
    converted_entries = {kind: converted(kind, blobs, change, f"{shard}, {kind}") for kind, blobs in entries.items()}
    state = replace(
        state,
        fingerprint=dict(context.fingerprint),
        members=context.stored_members,
        entries=Inventory.of(converted_entries).recorded(),
    )
    changed: dict[str, dict[int, bytes | None]] = {
        kind: dict.fromkeys(entries[kind].keys() - blobs.keys())
        | {key: blob for key, blob in blobs.items() if blob != entries[kind].get(key)}
        for kind, blobs in converted_entries.items()
    }
    return Changes(state.to_bytes(), changed)
