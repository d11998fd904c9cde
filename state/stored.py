"""What is stored of a shard: one blob that is written after each step, and entries of some kinds that it counts."""

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
    """Everything that is stored of one shard.

    Attributes
    ----------
    shard : the blob that is written after each step
    entries : all others, by kind and key
    """

    shard: bytes
    entries: Entries

    def after(self, changes: Changes) -> Stored:
        """What is stored once changes were written."""
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
    """What must be written since the last time.

    Attributes
    ----------
    shard : the blob, always
    entries : by kind and key; None stands for an entry to remove
    """

    shard: bytes
    entries: Mapping[str, dict[int, bytes | None]] = field(default_factory=dict)


class Inventory:
    """Which entries there are, as the blob of the shard tells: how many of each kind, and a digest of them.

    Each blob has a checksum of its own; but entries that are whole may still not belong together, because one of them
    was lost, or is of another time.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self._digests: dict[str, dict[int, int]] = {kind: {} for kind in kinds}
        self._total = dict.fromkeys(self._digests, 0)

    def update(self, changes: Mapping[str, dict[int, bytes | None]]) -> None:
        """Note what is written."""
        for kind, entries in changes.items():
            digests, total = self._digests.setdefault(kind, {}), self._total.get(kind, 0)
            for key, blob in entries.items():
                total ^= digests.pop(key, 0)
                if blob is not None:
                    digests[key] = _digest(key, blob)
                    total ^= digests[key]
            self._total[kind] = total

    def told(self) -> dict[str, list[int | str]]:
        """Count and digest by kind, for the blob of the shard."""
        return {kind: [len(digests), f"{self._total[kind]:032x}"] for kind, digests in self._digests.items()}

    @classmethod
    def of(cls, entries: Entries) -> Inventory:
        """That of some entries."""
        made = cls(entries)
        made.update({kind: dict(blobs) for kind, blobs in entries.items()})
        return made


def entries_of(stored: Stored, kinds: Iterable[str], told: Iterable[str] | None) -> dict[str, dict[int, bytes]]:
    """Its entries by kind: of some ``kinds``, of those that the blob of the shard ``told`` of, and of what there is."""
    there = [kind for kind, blobs in stored.entries.items() if blobs]
    return {kind: dict(stored.entries.get(kind, {})) for kind in dict.fromkeys((*kinds, *(told or ()), *there))}


def require_complete(told: Mapping[str, list[int | str]] | None, entries: Entries, where: str) -> None:
    """Raise ``StateError``, naming the kind, where entries are not those that the blob of a shard tells of.

    ``told`` is None for a blob of a version that told nothing.
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
    # The blob's own checksum stands for what it holds.
    content = struct.pack("<qIQ", key, checksum(blob), len(blob))
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")
