"""Flink state of a shard: bytes of Crenel's format in managed states."""

from __future__ import annotations

from collections.abc import Sequence

from pyflink.common import Types
from pyflink.datastream import RuntimeContext
from pyflink.datastream.state import MapState, MapStateDescriptor, ValueState, ValueStateDescriptor

from crenel.state.shard import Changes, StoredShard

# Never pickled: pickled state becomes unreadable once a class has moved.
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


class ShardStore:
    """The state of the current key.

    Parameters
    ----------
    context : runtime context of the Flink function
    entries : kinds of entries, each with a map state of its own
    chained : whether the audit log has a hash chain
    """

    def __init__(self, context: RuntimeContext, entries: Sequence[str], *, chained: bool = False) -> None:
        self._shard: ValueState = context.get_state(ValueStateDescriptor("shard", _BYTES))
        self._rejected: ValueState = context.get_state(ValueStateDescriptor("rejected", _BYTES))
        self._chain: ValueState | None = context.get_state(ValueStateDescriptor("chain", _BYTES)) if chained else None
        self._entries: dict[str, MapState] = {
            kind: context.get_map_state(MapStateDescriptor(kind, Types.LONG(), _BYTES)) for kind in entries
        }

    @property
    def known(self) -> bool:
        """Whether state of the shard exists."""
        return self._shard.value() is not None

    def read(self) -> StoredShard | None:
        """Return the entire state of the shard; None where there is none."""
        shard = self._shard.value()
        if shard is None:
            return None
        entries = {kind: {key: bytes(blob) for key, blob in state.items()} for kind, state in self._entries.items()}
        return StoredShard(bytes(shard), entries)

    def write(self, changes: Changes) -> None:
        """Apply changes to the state of the shard."""
        for kind, entries in changes.entries.items():
            state = self._entries[kind]
            for key, blob in entries.items():
                if blob is None:
                    state.remove(key)
                else:
                    state.put(key, blob)
        self._shard.update(changes.shard)

    @property
    def rejected(self) -> bytes | None:
        """The blob of the operator's counts of rejected records; None where nothing is stored."""
        blob = self._rejected.value()
        return None if blob is None else bytes(blob)

    @rejected.setter
    def rejected(self, blob: bytes) -> None:
        self._rejected.update(blob)

    @property
    def chain(self) -> bytes | None:
        """The blob of the hash chain's state; None where nothing is stored, or there is no chain."""
        blob = None if self._chain is None else self._chain.value()
        return None if blob is None else bytes(blob)

    @chain.setter
    def chain(self, blob: bytes) -> None:
        if self._chain is None:
            raise RuntimeError("a job without a hash chain has no state of one")
        self._chain.update(blob)
