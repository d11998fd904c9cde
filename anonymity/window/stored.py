"""What of a shard of windows is stored, and how it comes back: the counterpart of ``anonymity.castle.stored``.

It uses the same ``Changes`` and ``Stored``: ``shard`` holds a ``state.window.WindowState``, and there is neither gamma
nor omega, since nothing of a window outlives it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anonymity.castle.stored import require_same
from anonymity.compiled.random import random_stream
from anonymity.policy import Policy, Privacy
from anonymity.space.domain import scales
from anonymity.tuples.stored_blocks import StoredBlocks
from anonymity.window import arrays as at
from anonymity.window.parameters import WindowParameters
from anonymity.window.shard import Window
from state.block import Block
from state.shard import Changes, Stored
from state.window import Held, WindowState

_SCALARS = [at.NEXT_POSITION, at.NEXT_RELEASE, at.NEXT_WINDOW, at.CLOCK, at.SIZE, at.TARGET]
_SCALARS += [at.DWELT, at.VALUES, at.STEP_UP, at.JUDGED]


class WindowMemory:
    """What is stored of one shard.

    Parameters
    ----------
    window : the shard, with nothing stored of it yet
    fingerprint : hash by field, of what a restored shard must have in common with it (``anonymity.policy.fingerprint``)
    """

    def __init__(self, window: Window, fingerprint: dict[str, str]) -> None:
        self._window = window
        self._fingerprint = fingerprint
        self._blocks = StoredBlocks()

    def changes(self) -> Changes:
        """What to write after one step of the shard."""
        blocks = self._settle()
        block = self._window.last_step.block
        if block is not None and len(block):
            blocks.update(self._keep(block))
        return Changes(self._state(), blocks, {}, {})

    def _settle(self) -> dict[int, bytes | None]:
        # Tuples of the block that is being pushed are not counted yet: _keep counts those that stayed.
        left = self._window.last_step.left
        return self._blocks.settle(left[left < self._end()])

    def _end(self) -> int:
        return int(self._window.live.scalars[at.NEXT_POSITION]) - len(self._window.last_step.admitted)

    def _keep(self, block: Block) -> dict[int, bytes | None]:
        number = self._blocks.number()
        slots, points = self._window.last_step.admitted, self._window.live.points
        stays = points.waits[slots]
        if not stays.any():
            return {}
        self._blocks.add(number, self._end(), np.count_nonzero(stays))
        held = Held(position=points.position[slots[stays]], **block.chosen(stays))
        return {number: held.to_bytes()}

    def _state(self) -> bytes:
        live = self._window.live
        carried = live.held[: live.scalars[at.CARRIED]]
        new = live.held[live.scalars[at.CARRIED] : live.scalars[at.HELD]]
        buckets = np.flatnonzero(live.delays)
        return WindowState(
            shard=self._window.shard,
            fingerprint=self._fingerprint,
            scalars=live.scalars[_SCALARS],
            next_block=self._blocks.next_number,
            first=int(live.points.position[new[0]]) if len(new) else int(live.scalars[at.NEXT_POSITION]),
            carried=live.points.position[carried],
            reason=live.points.reason[carried],
            control=live.control,
            lower=live.domain.lower,
            upper=live.domain.upper,
            key=live.random.key.astype(np.uint64),
            key_used=int(live.random.used[0]),
            totals=live.totals,
            loss_total=float(live.loss_total[0]),
            delays=np.stack([buckets, live.delays[buckets]], axis=1),
            rejected=self._window.rejected,
        ).to_bytes()

    @classmethod
    def restore(
        cls,
        policy: Policy,
        privacy: Privacy,
        parameters: WindowParameters,
        *,
        members: pa.Schema,
        fingerprint: dict[str, str],
        stored: Stored,
        where: str = "",
    ) -> tuple[Window, WindowMemory]:
        """A shard as it was stored, under a policy that may differ where that is safe.

        k, l, sizes and delays may: what waits is grouped under the new ones, and what they have made overdue leaves in
        the next step. ``where`` names the shard in errors beside its number, such as ``key 3``.

        Raises
        ------
        state.codec.StateError
            The bytes are damaged, of an unknown version, or of a shard that did not work by windows.
        PolicyError
            The policy differs from the stored one in something that cannot change; it names the fields.
        """
        state = WindowState.from_bytes(stored.shard, where)
        shard = f"shard {state.shard}" + (f" ({where})" if where else "")
        require_same(state.fingerprint, fingerprint, shard)
        key = state.key.astype("<u4").tobytes()
        window = Window(policy, privacy, parameters, members=members, shard=state.shard, key=key)
        memory = cls(window, fingerprint)
        memory._blocks.next_number = state.next_block
        for number, blob in sorted(stored.blocks.items()):  # a state back end has them in any order
            memory._restore_block(number, Held.from_bytes(blob, members, f"{shard}, block {number}"), state)
        _restore_window(window, state, privacy)
        window.live = window.live._replace(random=random_stream(key, state.key_used))
        return window, memory

    def _restore_block(self, number: int, held: Held, state: WindowState) -> None:
        window = self._window
        slots = window.admit(held)
        carried = np.isin(held.position, state.carried)
        waits = carried | (held.position >= state.first)
        window.release_slots(slots[~waits])
        kept = slots[waits]
        points, scalars = window.live.points, window.live.scalars
        points.position[slots] = held.position
        points.waits[kept] = True
        points.reason[slots[carried]] = state.reason[np.searchsorted(state.carried, held.position[carried])]
        waiting = int(scalars[at.HELD])
        window.live.held[waiting : waiting + len(kept)] = kept
        scalars[at.HELD] += len(kept)
        scalars[at.CARRIED] += np.count_nonzero(carried)
        scalars[at.EARLIEST] = min([int(scalars[at.EARLIEST]), *points.event_time[kept].tolist()])
        self._blocks.add(number, held.position[0], len(kept))


def _restore_window(window: Window, state: WindowState, privacy: Privacy) -> None:
    live, parameters = window.live, window.parameters
    size, target = int(live.scalars[at.SIZE]), privacy.l
    live.scalars[_SCALARS] = state.scalars
    # The controllers go on where they stood, within what they may reach now.
    if parameters.adaptive is not None:
        size = min(max(int(live.scalars[at.SIZE]), parameters.adaptive.least), size)
    if parameters.target is not None:
        target = min(max(int(live.scalars[at.TARGET]), privacy.l), parameters.target.most)
    live.scalars[at.SIZE], live.scalars[at.TARGET] = size, target
    live.control[:] = state.control
    live.domain.lower[:] = state.lower
    live.domain.upper[:] = state.upper
    live.domain.scale[:] = scales(state.lower, state.upper, len(window.policy.quasi_identifiers))
    live.totals[:] = state.totals
    live.loss_total[0] = state.loss_total
    live.delays[state.delays[:, 0]] = state.delays[:, 1]
    window.rejected[:] = state.rejected
