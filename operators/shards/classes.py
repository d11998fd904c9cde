"""Statistics of published equivalence classes: size, diversity, and the number of singleton releases.

A class is a release of a cluster, of merged clusters, or of a part of one. A tuple that reuses an earlier
generalization, or is fully generalized, forms no class.
"""

from __future__ import annotations

import numpy as np

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS

PERCENT_OF_K = (100, 125, 150, 200, 300, 500, 1000)
"""Lower bounds of the size buckets, in percent of k."""

CLASS_COUNTERS = ("released_alone", *(f"classes_from_{percent}" for percent in PERCENT_OF_K))
"""Names of the counters that exist under every policy."""

_FORMED = np.array([kind in ("cluster", "merged", "split") for kind in KINDS])
_GENERALIZED = KINDS.index("generalized")


class Classes:
    """Published classes of all shards of a subtask since it started.

    Parameters
    ----------
    k : the configured k

    Attributes
    ----------
    least : minimum number of persons in the class of a published generalization, except full ones; 0 before the first
    """

    def __init__(self, k: int) -> None:
        # Whole persons, rounded up: no class has 12.5 of them.
        self._from = np.array([-(-percent * k // 100) for percent in PERCENT_OF_K[1:]])
        self.least = 0
        self._released = self._alone = self._judged = self._diversity = 0

    @property
    def alone(self) -> float:
        """Share of released tuples in singleton releases, from 0 to 1."""
        return self._alone / max(self._released, 1)

    @property
    def diversity(self) -> float:
        """Mean over released tuples of the minimum l of their sensitive columns, without fully generalized tuples."""
        return self._diversity / max(self._judged, 1)

    def add(self, releases: Releases) -> dict[str, int]:
        """Add the releases of one step, and return the counter increments by name."""
        if not len(releases):
            return {}
        tuples, subjects = releases.tuples, releases.subjects
        alone = int(np.count_nonzero(tuples == 1))
        self._released += int(tuples.sum())
        self._alone += alone
        found = {"released_alone": alone}
        sizes = np.bincount(
            np.searchsorted(self._from, subjects[_FORMED[releases.kind]], side="right"), minlength=len(PERCENT_OF_K)
        )
        found |= {f"classes_from_{percent}": n for percent, n in zip(PERCENT_OF_K, sizes.tolist(), strict=True)}
        counts = releases.kind != _GENERALIZED
        if counts.any():
            least = int(subjects[counts].min())
            self.least = min(self.least, least) if self.least else least
            if releases.diversity.shape[1]:
                judged = int(tuples[counts].sum())
                diversity = int((releases.diversity.min(axis=1) * tuples)[counts].sum())
                self._judged, self._diversity = self._judged + judged, self._diversity + diversity
                found["diversity_sum"] = diversity
        return found
