"""Omega, the generalizations kept for reuse, and tau, the mean loss that bounds the loss of clusters."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.buffer.arrays import CastleArrays, points
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.compiled.random import randbelow
from crenel.anonymity.privacy_models.checks import only_diversity
from crenel.anonymity.space.boxes import assign
from crenel.anonymity.space.boxes_by_attribute import containing, lay
from crenel.anonymity.space.domain import NONE


@leaf
def reusable(shard: CastleArrays, slot: Int) -> Int:
    """Return the row of a random published generalization that contains a tuple, ``NONE`` where none does.

    The choice is random because the best generalization would reveal where the tuple is not (CASTLE, Section 3.2.2).
    """
    # Reuse is impossible with these settings: Omega keeps neither the neighbors in the class nor the frequency of each
    # value.
    if shard.noise.config.subjects > 0 or not only_diversity(shard.checks):
        return np.int64(NONE)
    match_count = containing_rows(shard, slot)
    shard.repairs.now.candidates = match_count
    if match_count == 0:
        return np.int64(NONE)
    return np.int64(shard.omega.by_attribute.matches[randbelow(shard.random, match_count)])


@leaf
def containing_rows(shard: CastleArrays, slot: Int) -> Int:
    """Count the published generalizations that contain a tuple.

    Their rows, oldest first, are written to the beginning of ``by_attribute.matches``.
    """
    omega, now = shard.omega, shard.now
    size, used = len(omega.release), now.omega_used
    match_count: Int = np.int64(0)
    if used == 0:
        return match_count
    first = now.omega_next - used  # oldest first, so that the choice does not depend on where the ring begins
    laid, others = omega.by_attribute, points(shard.tuples)
    if first < 0:
        match_count = containing(shard.domain, laid, others, slot, first + size, np.int64(size), match_count)
        first = np.int64(0)
    return containing(shard.domain, laid, others, slot, first, np.int64(now.omega_next), match_count)


@leaf
def keep(shard: CastleArrays, release: Int, subjects: Int, loss: float) -> None:
    """Keep a release of this step for reuse if it loses less than tau (output_cluster, steps 8 to 11), or always."""
    omega, now, out = shard.omega, shard.now, shard.out
    if (loss < now.tau or shard.config.keep_all != 0) and len(omega.release) > 0:
        row = now.omega_next
        assign(omega.box, row, out.box, release)
        lay(shard.domain, omega.by_attribute, row, omega.box, row)
        omega.subjects[row] = subjects
        for a in range(omega.diversity.shape[1]):
            omega.diversity[row, a] = out.diversity[release, a]
        omega.release[row] = now.next_release
        for a in range(omega.span.shape[2]):
            omega.span[row, 0, a] = shard.noise.span[0, a]
            omega.span[row, 1, a] = shard.noise.span[1, a]
        now.omega_next = (row + 1) % len(omega.release)
        if now.omega_used < len(omega.release):
            now.omega_used += 1


@leaf
def update_tau(shard: CastleArrays, loss: float) -> None:
    """Update tau, the mean loss of the most recent releases (CASTLE, Section 3.2.3)."""
    now, ring = shard.now, shard.ring
    ring[now.ring_next] = loss
    now.ring_next = (now.ring_next + 1) % len(ring)
    if now.ring_used < len(ring):
        now.ring_used += 1
    total = 0.0  # summed anew: a running sum would drift
    for i in range(now.ring_used):
        total += ring[i]
    now.tau = total / now.ring_used
