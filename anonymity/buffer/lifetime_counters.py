"""Counts of published and suppressed tuples over a shard's lifetime, converted between arrays, state and metrics."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.release_buffer import Totals
from crenel.anonymity.model.outcomes import FIRST_KINDS, KINDS
from crenel.anonymity.model.privacy import Privacy


class Told(Protocol):
    """Fields of a stored state that hold the lifetime counts."""

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
    """Lifetime counts of one shard.

    Parameters
    ----------
    totals : counts of the compiled procedures; initialized with the stored counts
    privacy : names the reasons of suppression
    state : the stored counts

    Attributes
    ----------
    forgotten : tuples of erased persons
    """

    def __init__(self, totals: Totals, privacy: Privacy, state: Told) -> None:
        self._totals, self._reasons, self.forgotten = totals, privacy.reasons, state.forgotten
        sums = totals.sums
        sums.released, sums.linked, sums.longest, sums.loss = state.released, state.linked, state.longest, state.loss
        for i, reason in enumerate(self._reasons):
            totals.suppressed[i] = state.suppressed.get(reason, 0)
        totals.kinds[: len(state.kinds)] = state.kinds
        totals.delays[state.delays[:, 0]] = state.delays[:, 1]
        # Counts under privacy models that the job no longer has.
        self._earlier = {
            reason: amount for reason, amount in state.suppressed.items() if reason not in self._reasons and amount
        }

    @property
    def suppressed(self) -> dict[str, int]:
        """Suppressed tuples by reason."""
        return self._earlier | dict(zip(self._reasons, self._totals.suppressed.tolist(), strict=True))

    def counted(self) -> dict[str, Any]:
        """Return the lifetime counts as fields of ``crenel.anonymity.algorithm.Counters``."""
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
        """Return the lifetime counts as fields of a stored state."""
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
    """Return the number of stored kinds: at least the first ones, and up to the last with a count."""
    return max([FIRST_KINDS, *(np.flatnonzero(kinds) + 1).tolist()])
