"""What has left a shard so far, between its arrays, what is stored of it, and what its counters tell."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.release_buffer import Totals
from crenel.anonymity.model.outcomes import FIRST_KINDS, KINDS
from crenel.anonymity.model.privacy import Privacy


class Told(Protocol):
    """The part of a stored state that tells it."""

    @property
    def released(self) -> int: ...
    @property
    def linked(self) -> int: ...
    @property
    def forgotten(self) -> int: ...
    @property
    def longest(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def suppressed(self) -> dict[str, int]: ...
    @property
    def kinds(self) -> NDArray[np.int64]: ...
    @property
    def delays(self) -> NDArray[np.int64]: ...


class LifetimeCounters:
    """What has left one shard.

    Parameters
    ----------
    totals : counts by compiled procedures; begins with what is stored
    privacy : names the reasons
    state : what is stored

    Attributes
    ----------
    forgotten : tuples of forgotten persons
    """

    def __init__(self, totals: Totals, privacy: Privacy, state: Told) -> None:
        self._totals, self._reasons, self.forgotten = totals, privacy.reasons, state.forgotten
        sums = totals.sums
        sums.released, sums.linked, sums.longest, sums.loss = state.released, state.linked, state.longest, state.loss
        for i, reason in enumerate(self._reasons):
            totals.suppressed[i] = state.suppressed.get(reason, 0)
        totals.kinds[: len(state.kinds)] = state.kinds
        totals.delays[state.delays[:, 0]] = state.delays[:, 1]
        # Counted under promises that are no longer made.
        self._earlier = {
            reason: amount for reason, amount in state.suppressed.items() if reason not in self._reasons and amount
        }

    @property
    def suppressed(self) -> dict[str, int]:
        """Tuples by reason."""
        return self._earlier | dict(zip(self._reasons, self._totals.suppressed.tolist(), strict=True))

    def counted(self) -> dict[str, Any]:
        """The fields of ``crenel.anonymity.algorithm.Counters`` that tell it."""
        totals, sums = self._totals, self._totals.sums
        return {
            "released": int(sums.released),
            "linked": int(sums.linked),
            "suppressed": self.suppressed,
            "releases": dict(zip(KINDS, totals.kinds.tolist(), strict=True)),
            "loss_sum": float(sums.loss),
            "forgotten": self.forgotten,
            "longest_delay": int(sums.longest),
            "delays": totals.delays.copy(),
        }

    def stored(self) -> dict[str, Any]:
        """The fields of a stored state that tell it."""
        totals, sums = self._totals, self._totals.sums
        buckets = np.flatnonzero(totals.delays)
        return {
            "released": int(sums.released),
            "linked": int(sums.linked),
            "longest": int(sums.longest),
            "loss": float(sums.loss),
            "forgotten": self.forgotten,
            "suppressed": self.suppressed,
            "kinds": totals.kinds[: _told(totals.kinds)],
            "delays": np.stack([buckets, totals.delays[buckets]], axis=1),
        }


def _told(kinds: NDArray[np.int64]) -> int:
    """Of how many kinds counts are stored: of those that there were always, and up to the last that there is any of."""
    return max([FIRST_KINDS, *(np.flatnonzero(kinds) + 1).tolist()])
