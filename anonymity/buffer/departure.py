"""Release, reuse and suppression of tuples, for all algorithms.

An algorithm chooses the tuples, and removes them from its buffer afterwards. This module adds noise, checks every
release against all privacy models before its publication, and records each release, suppression and delay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.arrays import CastleArrays, ReleaseArrays, points
from crenel.anonymity.buffer.omega import keep, update_tau
from crenel.anonymity.buffer.release_buffer import GENERALIZED, REUSED, complete, note_delay
from crenel.anonymity.compiled.arrays import stable_order
from crenel.anonymity.compiled.jit import Int, inner, leaf, procedure
from crenel.anonymity.compiled.random import shuffle
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.noise.draw import add_noise, note_scale, span, span_domain, widen
from crenel.anonymity.noise.linking import near, nearest_is_own
from crenel.anonymity.privacy_models.checks import enforce, enforce_counted, satisfies_all
from crenel.anonymity.privacy_models.tally import Slots, count_set
from crenel.anonymity.space.boxes import assign, contains, enclose, fully_generalize, info_loss
from crenel.anonymity.space.domain import NONE, Boxes
from crenel.anonymity.space.ends import published_loss, round_outwards
from crenel.state.block import NO_TIME


class Columns(NamedTuple):
    """Columns of the buffered tuples that a release depends on.

    Attributes
    ----------
    points : (slots,) the tuples as boxes of no width
    subject : (slots,) keyed hashes
    value : (slots, columns) numbers of the sensitive values, as ``count_set`` takes them
    event_time : (slots,) epoch milliseconds
    position : (slots,) positions in the shard's stream
    """

    points: Boxes
    subject: NDArray[np.uint64]
    value: NDArray[np.int32]
    event_time: NDArray[np.int64]
    position: NDArray[np.int64]


@inner
def columns(shard: CastleArrays) -> Columns:
    """Return the columns of a shard that buffers tuples up to a delay bound."""
    tuples = shard.tuples
    return Columns(points(tuples), tuples.subject, shard.waiting.value, tuples.event_time, tuples.position)


@leaf
def suppress(shard: ReleaseArrays, position: NDArray[np.int64], slot: Int, reason: Int) -> None:
    """Suppress a tuple: record its slot, the reason and the delay; ``position`` is that of ``Columns``."""
    out, totals = shard.out, shard.totals
    totals.suppressed[reason] += 1
    out.suppressed[out.filled.suppressed] = slot
    out.reason[out.filled.suppressed] = reason
    out.filled.suppressed += 1
    note_delay(totals, shard.now.next_position - 1 - position[slot])


@leaf
def validate_and_shuffle(shard: ReleaseArrays, tuples: Columns, start: Int, stop: Int) -> tuple[Int, bool]:
    """Check the members of the next release against all privacy models, and shuffle them.

    The check counts the members anew. With noise inside releases, members whose noised values reveal too much are
    suppressed first. The remaining members may then be too few for a release.

    Parameters
    ----------
    start, stop : range of the members in ``out.members``

    Returns
    -------
    tuple
        The index after the last remaining member, and whether the remaining members may be released. Their diversity is
        written to the release; ``counter.tally`` counts them.
    """
    out, tally, end = shard.out, shard.counter.tally, stop
    noised = shard.noise.value.shape[1] > 0
    if noised:
        stop = suppress_linkable(shard, tuples.subject, tuples.position, start, stop)
    count_set(shard.counter, out.members[start:stop], tuples.subject, tuples.value, shard.config.by_name != 0)
    if stop < end and not satisfies_all(shard.checks, shard.config.k, tally):
        return stop, False
    enforce(shard.checks, shard.config.k, tally, out.diversity[out.filled.releases])
    if noised:
        for i in range(start, stop):
            shard.totals.sums.linked += shard.noise.linked[out.members[i]]
    shuffle(shard.random, out.members, start, stop)
    return stop, True


@procedure
def suppress_linkable(
    shard: ReleaseArrays, subject: NDArray[np.uint64], position: NDArray[np.int64], start: Int, stop: Int
) -> Int:
    """Add noise to the members of the next release, and suppress those whose noised values reveal too much.

    A suppressed member hides no other. So the range of a published value is counted among all members first, and then
    again among the remaining ones until none is suppressed.

    Returns
    -------
    stop : index after the last remaining member; these keep their order
    """
    noise, out = shard.noise, shard.out
    members = out.members[start:stop]
    span(noise, members)
    note_scale(noise, out.filled.releases)
    add_noise(noise, shard.random, members)
    count = len(members)
    first, value, ranked = np.empty(count), np.empty(count), members.copy()
    for i in range(count):
        value[i] = noise.value[members[i], 0]
    order = stable_order(value)
    for i in range(count):
        first[i], ranked[i] = value[order[i]], members[order[i]]
    lonely, again = np.zeros(count, np.bool_), noise.config.subjects > 0
    while again:
        again, stay = False, 0
        for i in range(count):
            within = near(noise, np.int64(ranked[i]), ranked[:count], first[:count], subject)
            lonely[order[i]] = 0 < within < noise.config.subjects
            again |= lonely[order[i]]
        for i in range(count):
            if not lonely[order[i]]:
                order[stay], first[stay], ranked[stay] = order[i], first[i], ranked[i]
                stay += 1
        count = stay
    for i in range(count):
        noise.linked[ranked[i]] = nearest_is_own(noise, np.int64(ranked[i]), ranked[:count], first[:count], subject)
    kept = start
    for i in range(len(lonely)):
        slot = out.members[start + i]
        if lonely[i]:
            suppress(shard, position, np.int64(slot), noise.config.reason)
        else:
            out.members[kept] = slot
            kept += 1
    return kept


@leaf
def enclose_all(shard: ReleaseArrays, boxes: Boxes, row: Int, tuples: Columns, members: Slots) -> Int:
    """Set a box to the smallest around the given tuples, and return the event time of the newest.

    The members must exclude suppressed tuples, or an end of the box might be the value of one of them.
    """
    newest = NO_TIME
    assign(boxes, row, tuples.points, np.int64(members[0]))
    for i in range(len(members)):
        enclose(shard.domain, boxes, row, tuples.points, np.int64(members[i]))
        newest = max(newest, tuples.event_time[members[i]])
    return newest


@leaf
def require_inside(shard: ReleaseArrays, tuples: Columns, boxes: Boxes, row: Int, stop: Int) -> None:
    """Raise if a member of the next release, up to ``stop``, lies outside a box."""
    for i in range(shard.out.filled.members, stop):
        if not contains(shard.domain, boxes, row, tuples.points, np.int64(shard.out.members[i])):
            raise InvariantError("a member lies outside its generalization; nothing of this release was emitted")


@leaf
def release_class(shard: CastleArrays, members: NDArray[np.int64], due: Int, kind: Int) -> Int:
    """Release tuples as one equivalence class (CASTLE, output_cluster, steps 6 to 11).

    Noise may leave too few tuples for a release. Then the tuple ``due`` is suppressed and the others may wait.

    Returns
    -------
    int
        The number of tuples that may wait. They come first in ``members`` and belong to no cluster; 0 after a release.
    """
    out, box, domain, tuples = shard.out, shard.out.box, shard.domain, columns(shard)
    release, start = out.filled.releases, out.filled.members
    stop = start + len(members)
    for i in range(len(members)):
        out.members[start + i] = members[i]
    stop, valid = validate_and_shuffle(shard, tuples, start, stop)
    if not valid:
        return _keep_waiting(shard, members, due, start, stop)
    newest = enclose_all(shard, box, release, tuples, out.members[start:stop])
    loss = info_loss(domain, box, release)  # before ends are rounded, as for the clusters that tau bounds
    round_outwards(domain, box, release)
    require_inside(shard, tuples, box, release, stop)
    update_tau(shard, loss)
    subjects = shard.counter.tally.persons[0]
    keep(shard, release, subjects, loss)
    complete(shard, tuples.position, kind, subjects, published_loss(domain, box, release), stop, newest)
    return np.int64(0)


@leaf
def _keep_waiting(shard: CastleArrays, members: NDArray[np.int64], due: Int, start: Int, stop: Int) -> Int:
    waiting = np.int64(0)
    for i in range(start, stop):
        slot = np.int64(shard.out.members[i])
        if slot == due:
            suppress(shard, shard.tuples.position, slot, shard.noise.config.reason)
        else:
            shard.tuples.cluster[slot] = NONE
            members[waiting] = slot
            waiting += 1
    return waiting


@leaf
def reuse(shard: CastleArrays, slot: Int, published: Int) -> None:
    """Publish a tuple under an earlier generalization (Omega in CASTLE)."""
    omega, out = shard.omega, shard.out
    release = out.filled.releases
    enforce_counted(shard.checks, shard.config.k, omega.subjects[published], omega.diversity[published])
    assign(out.box, release, omega.box, published)
    for a in range(out.diversity.shape[1]):
        out.diversity[release, a] = omega.diversity[published, a]
    widen(shard.noise, omega.span[published], slot)
    shard.repairs.now.reused = omega.release[published]
    _release_alone(shard, slot, np.int64(REUSED), omega.subjects[published])


@leaf
def suppress_or_generalize(shard: CastleArrays, slot: Int, reason: Int) -> None:
    """Suppress a tuple, or publish it fully generalized as the paper does (delay_constraint, steps 15 and 18)."""
    if shard.config.generalize == 0:
        suppress(shard, shard.tuples.position, slot, reason)
        return
    shard.totals.suppressed[reason] += 1
    shard.repairs.now.lacked = reason
    release = shard.out.filled.releases
    fully_generalize(shard.domain, shard.out.box, release)
    for a in range(shard.out.diversity.shape[1]):
        shard.out.diversity[release, a] = 1
    span_domain(shard.noise)
    _release_alone(shard, slot, np.int64(GENERALIZED), np.int64(1))


@leaf
def _release_alone(shard: CastleArrays, slot: Int, kind: Int, subjects: Int) -> None:
    out = shard.out
    start = out.filled.members
    stop = start + 1
    out.members[start] = slot
    if shard.noise.value.shape[1] > 0:
        note_scale(shard.noise, out.filled.releases)
        add_noise(shard.noise, shard.random, out.members[start:stop])
        shard.noise.linked[slot] = False  # the members of its class are no longer known
    loss = published_loss(shard.domain, out.box, out.filled.releases)
    complete(shard, shard.tuples.position, kind, subjects, loss, stop, shard.tuples.event_time[slot])
