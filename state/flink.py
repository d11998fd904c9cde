"""The Flink state that holds a shard: bytes of our own format in four managed states."""

from __future__ import annotations

from pyflink.common import Types
from pyflink.datastream import RuntimeContext
from pyflink.datastream.state import MapState, MapStateDescriptor, ValueState, ValueStateDescriptor

from state.shard import Changes, Stored

# Never pickled: pickled state cannot be read once a class has moved.
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


class ShardStore:
    """The state of the current key; entries are named as in ``state.shard``."""

    def __init__(self, context: RuntimeContext) -> None:
        self._shard: ValueState = context.get_state(ValueStateDescriptor("shard", _BYTES))
        self._maps: dict[str, MapState] = {
            name: context.get_map_state(MapStateDescriptor(name, Types.LONG(), _BYTES))
            for name in ("blocks", "gamma", "omega")
        }

    def read(self) -> Stored | None:
        """All that is stored of the current key; None where nothing is."""
        shard = self._shard.value()
        if shard is None:
            return None
        entries = {name: {key: bytes(blob) for key, blob in state.items()} for name, state in self._maps.items()}
        return Stored(bytes(shard), entries["blocks"], entries["gamma"], entries["omega"])

    def write(self, changes: Changes) -> None:
        """Bring the state of the current key up to date."""
        for name, entries in (("blocks", changes.blocks), ("gamma", changes.gamma), ("omega", changes.omega)):
            state = self._maps[name]
            for key, blob in entries.items():
                if blob is None:
                    state.remove(key)
                else:
                    state.put(key, blob)
        self._shard.update(changes.shard)
