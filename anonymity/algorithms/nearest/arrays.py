"""Arrays of a nearest-release shard, shared with its compiled procedures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.cells import Cells, empty_cells
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters
from crenel.anonymity.buffer import arrays as castle
from crenel.anonymity.buffer.arrays import CastleArrays, Clusters, Expiry, Omega, Tuples
from crenel.anonymity.buffer.release_buffer import ReleaseBuffer, Totals
from crenel.anonymity.compiled.arrays import zeros
from crenel.anonymity.compiled.random import CounterRandom, RandomStream
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.noise.release_noise import NoiseArrays
from crenel.anonymity.privacy_models.buffered_values import Waiting
from crenel.anonymity.privacy_models.checks import Checks
from crenel.anonymity.privacy_models.incremental_tally import IncrementalTally, empty_trial
from crenel.anonymity.privacy_models.tally import Counter
from crenel.anonymity.space.domain import Boxes, Domain, boxes


class NearestArrays(NamedTuple):
    """Arrays of one shard: those of ``CastleArrays``, with all tuples in one cluster, and the search structures.

    Attributes
    ----------
    cells : buffered tuples in cells of neighbors
    codes : (slots, 1 + sensitive) an unused column, then the number of each sensitive value, as ``trial`` takes them
    trial : tally of the group that grows
    group : (2 * slots,) slots of the group's members, and as much scratch space
    box : (2,) generalization of the group, and the previous one
    """

    now: Any
    of: Any
    checks: Checks
    ring: NDArray[np.float64]
    random: RandomStream
    lots: CounterRandom
    domain: Domain
    tuples: Tuples
    clusters: Clusters
    waiting: Waiting
    counter: Counter
    by_position: Expiry
    by_time: Expiry
    omega: Omega
    out: ReleaseBuffer
    totals: Totals
    noise: NoiseArrays
    cells: Cells
    codes: NDArray[np.int32]
    trial: IncrementalTally
    group: NDArray[np.int64]
    box: Boxes


def empty_arrays(
    policy: Policy, privacy: Privacy, parameters: NearestParameters, random: RandomStream
) -> NearestArrays:
    """Return the arrays of a shard before its first tuple."""
    made = castle.empty_arrays(policy, privacy, parameters, random)
    made.of.keep_all = (
        True  # the caller weighs reuse against a group (``crenel.anonymity.algorithms.nearest.procedures``)
    )
    return _with_search(made, policy)


def with_slots(arrays: NearestArrays, slots: int, policy: Policy, parameters: NearestParameters) -> NearestArrays:
    """Return the arrays with at least ``slots`` slots; buffered tuples keep their slots."""
    held = len(arrays.group) // 2
    if slots <= held:
        return arrays
    shared = CastleArrays(**{name: getattr(arrays, name) for name in CastleArrays._fields})
    larger = castle.with_slots(shared, slots, policy, parameters)
    made = _with_search(larger, policy)
    made.codes[:held] = arrays.codes
    made.cells.place[:held] = arrays.cells.place
    return made


def _with_search(shared: CastleArrays, policy: Policy) -> NearestArrays:
    slots, sensitive = len(shared.tuples.position), len(policy.sensitive)
    return NearestArrays(
        **shared._asdict(),
        cells=empty_cells(slots, policy),
        codes=zeros((slots, 1 + sensitive), np.int32),
        trial=empty_trial(sensitive, slots, shared.checks),
        group=zeros(2 * slots, np.int64),
        box=boxes(2, policy),
    )
