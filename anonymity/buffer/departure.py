"""Publication of chosen tuples under one generalization, their reuse of an earlier one, or their suppression.

The caller removes the tuples from the buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.arrays import points
from crenel.anonymity.buffer.omega import keep, update_tau
from crenel.anonymity.buffer.release_buffer import GENERALIZED, REUSED, close_release, note_delay, withhold
from crenel.anonymity.buffer.release_checks import enclose_all, validate_and_shuffle
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.noise.draw import add_noise, note_scale, span_domain, widen
from crenel.anonymity.privacy_models.checks import enforce_counted
from crenel.anonymity.space.boxes import assign, contains, fully_generalize, info_loss
from crenel.anonymity.space.domain import NONE
from crenel.anonymity.space.ends import published_loss, round_outwards


@leaf
def release_part(shard: Any, members: NDArray[np.int64], due: Int, kind: Int) -> Int:
    """Release tuples as one equivalence class (CASTLE, output_cluster, steps 6 to 11).

    Noise may leave too few tuples for a release. Then the tuple ``due`` is suppressed and the others may wait.

    Returns
    -------
    int
        The number of tuples that may wait. They come first in ``members`` and belong to no cluster; 0 after a release.
    """
    tuples, out, tally = shard.tuples, shard.out, shard.counter.tally
    release, start = out.filled.releases, out.filled.members
    stop = start + len(members)
    domain, box, others = shard.domain, out.box, points(tuples)
    for i in range(len(members)):
        out.members[start + i] = members[i]
    withheld = out.filled.suppressed
    stop, leaves = validate_and_shuffle(shard, tuples.subject, shard.waiting.value, start, stop)
    waiting: Int = np.int64(0)
    if not leaves:
        waiting = _keep_waiting(shard, members, due, start, stop)
    for i in range(withheld, out.filled.suppressed):
        note_wait(shard, np.int64(out.suppressed[i]))
    if not leaves:
        return waiting
    newest = enclose_all(domain, box, release, others, out.members[start:stop], tuples.event_time)
    loss = info_loss(domain, box, release)  # before ends are rounded, as for the clusters that tau bounds
    round_outwards(domain, box, release)
    for i in range(start, stop):
        note_wait(shard, np.int64(out.members[i]))
        if not contains(domain, box, release, others, np.int64(out.members[i])):
            raise InvariantError("a member lies outside its generalization; nothing of this release was emitted")
    update_tau(shard, loss)
    keep(shard, release, tally.persons[0], loss)
    close_release(out, shard.totals, kind, tally.persons[0], published_loss(domain, box, release), stop, newest)
    shard.now.next_release += 1
    return waiting


@leaf
def _keep_waiting(shard: Any, members: NDArray[np.int64], due: Int, start: Int, stop: Int) -> Int:
    waiting = np.int64(0)
    for i in range(start, stop):
        slot = np.int64(shard.out.members[i])
        if slot == due:
            withhold(shard.out, shard.totals, slot, shard.noise.of.reason)
        else:
            shard.tuples.cluster[slot] = NONE
            members[waiting] = slot
            waiting += 1
    return waiting


@leaf
def reuse(shard: Any, slot: Int, published: Int) -> None:
    """Publish a tuple under an earlier generalization (Omega in CASTLE)."""
    omega, out = shard.omega, shard.out
    release = out.filled.releases
    enforce_counted(shard.checks, shard.of.k, omega.subjects[published], omega.diversity[published])
    assign(out.box, release, omega.box, published)
    for a in range(out.diversity.shape[1]):
        out.diversity[release, a] = omega.diversity[published, a]
    widen(shard.noise, omega.span[published], slot)
    _leave_alone(shard, slot, np.int64(REUSED), omega.subjects[published])


@leaf
def suppress(shard: Any, slot: Int, reason: Int) -> None:
    """Suppress a tuple, or publish it fully generalized as the paper does (delay_constraint, steps 15 and 18)."""
    if shard.of.generalize != 0:
        shard.totals.suppressed[reason] += 1
        release = shard.out.filled.releases
        fully_generalize(shard.domain, shard.out.box, release)
        for a in range(shard.out.diversity.shape[1]):
            shard.out.diversity[release, a] = 1
        span_domain(shard.noise)
        _leave_alone(shard, slot, np.int64(GENERALIZED), np.int64(1))
        return
    withhold(shard.out, shard.totals, slot, reason)
    note_wait(shard, slot)


@leaf
def _leave_alone(shard: Any, slot: Int, kind: Int, subjects: Int) -> None:
    out = shard.out
    start = out.filled.members
    stop = start + 1
    out.members[start] = slot
    note_wait(shard, slot)
    if shard.noise.value.shape[1] > 0:
        note_scale(shard.noise, out.filled.releases)
        add_noise(shard.noise, shard.random, out.members[start:stop])
        shard.noise.linked[slot] = False  # the members of its class are no longer known
    loss = published_loss(shard.domain, out.box, out.filled.releases)
    close_release(out, shard.totals, kind, subjects, loss, stop, shard.tuples.event_time[slot])
    shard.now.next_release += 1


@leaf
def note_wait(shard: Any, slot: Int) -> None:
    """Count the delay of a tuple that is published or suppressed."""
    note_delay(shard.totals, shard.now.next_position - 1 - shard.tuples.position[slot])
