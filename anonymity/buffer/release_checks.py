"""Noise, privacy checks and shuffling of the members of a release, shared by all algorithms.

An algorithm calls these procedures after it has chosen the members.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.release_buffer import withhold
from crenel.anonymity.compiled.jit import Int, leaf, procedure
from crenel.anonymity.compiled.random import shuffle
from crenel.anonymity.noise.draw import add_noise, note_scale, span
from crenel.anonymity.noise.linking import near, nearest_is_own
from crenel.anonymity.privacy_models.checks import enforce, keeps_promises
from crenel.anonymity.privacy_models.tally import Slots, count_set
from crenel.anonymity.space.boxes import assign, enclose
from crenel.anonymity.space.domain import Boxes, Domain
from crenel.state.block import NO_TIME


@leaf
def validate_and_shuffle(
    shard: Any, subject: NDArray[np.uint64], value: NDArray[np.int32], start: Int, stop: Int
) -> tuple[Int, bool]:
    """Check the members of the next release against all privacy models, and shuffle them.

    The check counts the members anew. With noise inside releases, members whose noised values reveal too much are
    suppressed first. The remaining members may then be too few for a release.

    Parameters
    ----------
    shard : the arrays of an algorithm: ``of`` with ``k`` and ``by_name``, ``checks``, ``random``, ``counter``, ``out``,
        ``totals`` and ``noise``
    subject : (slots,) keyed hashes
    value : (slots, sensitive) numbers of the sensitive values
    start, stop : range of the members in ``out.members``

    Returns
    -------
    tuple
        The index after the last remaining member, and whether the remaining members may be released. Their diversity is
        written to the release; ``counter.tally`` counts them.
    """
    out, tally, whole = shard.out, shard.counter.tally, stop
    noised = shard.noise.value.shape[1] > 0
    if noised:
        stop = settle(shard, subject, start, stop)
    count_set(shard.counter, out.members[start:stop], subject, value, shard.of.by_name != 0)
    if stop < whole and not keeps_promises(shard.checks, shard.of.k, tally):
        return stop, False
    enforce(shard.checks, shard.of.k, tally, out.diversity[out.filled.releases])
    if noised:
        for i in range(start, stop):
            shard.totals.sums.linked += shard.noise.linked[out.members[i]]
    shuffle(shard.random, out.members, start, stop)
    return stop, True


@leaf
def enclose_all(
    domain: Domain, boxes: Boxes, row: Int, points: Boxes, members: Slots, event_time: NDArray[np.int64]
) -> Int:
    """Set a box to the smallest around the given tuples, and return the event time of the newest.

    The members must exclude suppressed tuples, or an end of the box might be the value of one of them.
    """
    newest = NO_TIME
    assign(boxes, row, points, np.int64(members[0]))
    for i in range(len(members)):
        enclose(domain, boxes, row, points, np.int64(members[i]))
        newest = max(newest, event_time[members[i]])
    return newest


@procedure
def settle(shard: Any, subject: NDArray[np.uint64], start: Int, stop: Int) -> Int:
    """Add noise to the members of the next release, and suppress those whose noised values reveal too much.

    Returns
    -------
    stop : index after the last remaining member; these keep their order
    """
    noise, out = shard.noise, shard.out
    members = out.members[start:stop]
    span(noise, members)
    note_scale(noise, out.filled.releases)
    add_noise(noise, shard.random, members)
    first = np.empty(len(members))
    for i in range(len(members)):
        first[i] = noise.value[members[i], 0]
    order = np.argsort(first)
    first, ranked = first[order], members[order]
    lonely = np.zeros(len(members), np.bool_)
    for i in range(len(members)):
        member = np.int64(members[i])
        noise.linked[member] = nearest_is_own(noise, member, ranked, first, subject)
        if noise.of.subjects > 0:
            lonely[i] = 0 < near(noise, member, ranked, first, subject) < noise.of.subjects
    kept = start
    for i in range(len(lonely)):
        slot = out.members[start + i]
        if lonely[i]:
            withhold(out, shard.totals, np.int64(slot), noise.of.reason)
        else:
            out.members[kept] = slot
            kept += 1
    return kept


@leaf
def withhold_all(shard: Any, start: Int, stop: Int) -> None:
    """Suppress the remaining members of a class that became too small through suppression."""
    for i in range(start, stop):
        withhold(shard.out, shard.totals, np.int64(shard.out.members[i]), shard.noise.of.reason)
