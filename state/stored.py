"""Stored form of a shard: one blob written after each step, and several kinds of entries that it inventories."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from crenel.state.codec import StateError, checksum

Entries: TypeAlias = Mapping[str, dict[int, bytes]]
"""Blobs by kind and key."""


@dataclass(frozen=True)
class Stored:
    """The entire stored state of one shard.

    Attributes
    ----------
    shard : the blob that is written after each step
    entries : all others, by kind and key
    """

    shard: bytes
    entries: Entries

    def after(self, changes: Changes) -> Stored:
        """Return the stored state after applying changes."""
        entries = {kind: dict(held) for kind, held in self.entries.items()}
        for kind, written in changes.entries.items():
            held = entries.setdefault(kind, {})
            for key, blob in written.items():
                if blob is None:
                    held.pop(key, None)
                else:
                    held[key] = blob
        return Stored(changes.shard, entries)


@dataclass(frozen=True)
class Changes:
    """Changes since the last write.

    Attributes
    ----------
    shard : the blob, always
    entries : by kind and key; None stands for an entry to remove
    """

    shard: bytes
    entries: Mapping[str, dict[int, bytes | None]] = field(default_factory=dict)


class Inventory:
    """Count and digest of a shard's entries by kind, as stored in the shard's blob.

    Each blob has its own checksum. But intact entries may still be inconsistent, because one was lost or stems from
    another time.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self._digests: dict[str, dict[int, int]] = {kind: {} for kind in kinds}
        self._total = dict.fromkeys(self._digests, 0)

    def update(self, changes: Mapping[str, dict[int, bytes | None]]) -> None:
        """Record entries that were written or removed."""
        for kind, entries in changes.items():
            digests, total = self._digests.setdefault(kind, {}), self._total.get(kind, 0)
            for key, blob in entries.items():
                total ^= digests.pop(key, 0)
                if blob is not None:
                    digests[key] = _digest(key, blob)
                    total ^= digests[key]
            self._total[kind] = total

    def told(self) -> dict[str, list[int | str]]:
        """Return count and digest by kind, for the blob of the shard."""
        return {kind: [len(digests), f"{self._total[kind]:032x}"] for kind, digests in self._digests.items()}

    @classmethod
    def of(cls, entries: Entries) -> Inventory:
        """Return the inventory of the given entries."""
        made = cls(entries)
        made.update({kind: dict(blobs) for kind, blobs in entries.items()})
        return made


def entries_of(stored: Stored, kinds: Iterable[str], told: Iterable[str] | None) -> dict[str, dict[int, bytes]]:
    """Return the entries by kind: of ``kinds``, of the inventory ``told``, and of any other kind that is present."""
    there = [kind for kind, blobs in stored.entries.items() if blobs]
    return {kind: dict(stored.entries.get(kind, {})) for kind in dict.fromkeys((*kinds, *(told or ()), *there))}


def require_complete(told: Mapping[str, list[int | str]] | None, entries: Entries, where: str) -> None:
    """Raise ``StateError``, naming the kind, where entries do not match the inventory in a shard's blob.

    ``told`` is None for a blob of a version without an inventory.
    """
    if told is None:
        return
    found = Inventory.of(entries).told()
    for kind in sorted(told.keys() | found.keys()):
        if told.get(kind) != found.get(kind):
            has, wanted = found.get(kind, [0])[0], told.get(kind, [0])[0]
            what = f"{has} entries where {wanted} were stored" if has != wanted else "entries of different times"
            raise StateError(f"{kind} state of {where}: {what}; the state does not belong together")


def _digest(key: int, blob: bytes) -> int:
    # The blob's own checksum represents its content.
    content = struct.pack("<qIQ", key, checksum(blob), len(blob))
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")
