"""Compiled procedures of nearest release with a lasting guarantee.

A person's first tuple is published with its nearest neighbors, later ones with the same anonymity set.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.cells import drop, enter, rebuild
from crenel.anonymity.algorithms.nearest.grow import WAITS, choose_group
from crenel.anonymity.algorithms.nearest.isolation import measure_radius
from crenel.anonymity.algorithms.nearest.lasting.anonymity_set import (
    all_within,
    count_within,
    enclose_members,
    forget_old,
    forget_subject,
    found_group,
    generalize_group,
    is_too_late,
    join,
    lasting_diversity,
    latest,
    publish,
    satisfies_models,
    stays_diverse,
    touch_group,
)
from crenel.anonymity.algorithms.nearest.lasting.arrays import LastingArrays
from crenel.anonymity.algorithms.nearest.lasting.persons import (
    detach_tuple,
    forget_person,
    hold,
    note_latest,
    person_of,
    touch_person,
)
from crenel.anonymity.buffer.arrays import points
from crenel.anonymity.buffer.departure import (
    columns,
    enclose_all,
    require_inside,
    reuse,
    suppress_or_generalize,
    validate_and_shuffle,
)
from crenel.anonymity.buffer.omega import containing_rows, keep, update_tau
from crenel.anonymity.buffer.queue import (
    admit_and_release,
    arrive,
    decide_due,
    depart,
    line_up,
    number,
    step_out,
)
from crenel.anonymity.buffer.release_buffer import AGAIN, CLUSTER, WIDENED, complete
from crenel.anonymity.buffer.repair_log import begin_decision, end_decision
from crenel.anonymity.compiled.arrays import stable_order
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.compiled.random import randbelow, shuffle
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.privacy_models.checks import VALUES
from crenel.anonymity.privacy_models.counting import number as number_of
from crenel.anonymity.privacy_models.counting import numbered
from crenel.anonymity.space.boxes import assign, contains, enclose, info_loss
from crenel.anonymity.space.domain import NONE
from crenel.anonymity.space.ends import published_loss, round_outwards

_WIDEN, _SUPPRESS, _COUNT = range(3)
"""Positions in ``crenel.anonymity.algorithms.nearest.lasting.arrays.MOVED``."""


@entry
def lasting(
    shard: LastingArrays, slots: NDArray[np.int32], watermarks: NDArray[np.int64], watermark: Int, ended: bool
) -> None:
    """Admit tuples, release the tuples that are due, and forget absent persons.

    The parameters are those of ``admit_and_release``.
    """
    forget_old(shard, watermark)
    admit_and_release(shard, slots, watermarks, watermark, ended, place, release_due)


@procedure
def release_due(shard: LastingArrays, watermark: Int, ended: bool) -> None:
    """Publish or suppress each tuple that is due; forget persons absent for the horizon before and after."""
    forget_old(shard, watermark)
    if decide_due(shard, watermark, ended, release_tuple):
        forget_old(shard, watermark)


@entry
def remove_slots(shard: LastingArrays, slots: NDArray[np.int32]) -> None:
    """Remove tuples from the buffer."""
    for i in range(len(slots)):
        slot = np.int64(slots[i])
        if shard.persons.group[shard.rows.person[slot]] == NONE:
            _leave_unknown(shard, slot)
        else:
            leave(shard, slot)


@entry
def forget_subjects(shard: LastingArrays, subjects: NDArray[np.uint64]) -> None:
    """Forget persons on request, after the removal of their buffered tuples."""
    for i in range(len(subjects)):
        forget_subject(shard, subjects[i])
    forget_old(shard, shard.groups.now.passed)


@entry
def relink(shard: LastingArrays, slots: NDArray[np.int32]) -> None:
    """Return restored tuples to the buffer, in order of position; some persons' latest values are already restored."""
    for i in range(len(slots)):
        slot = np.int64(slots[i])
        person = person_of(shard, slot)
        persons, position = shard.persons, shard.tuples.position[slot]
        if position > persons.position[person]:
            if persons.group[person] == NONE and persons.first[person] == NONE:
                persons.position[person] = NONE  # the stored values predate the forgetting of the person
            note_latest(shard, person, slot)
        wait(shard, slot, person, True)


@entry
def settle(shard: LastingArrays) -> None:
    """Forget restored persons without group and buffered tuples, once the whole state is restored."""
    persons = shard.persons
    for person in range(persons.now.used):
        known = numbered(persons.row, np.int64(0), persons.subject[person]) == person
        if known and persons.group[person] == NONE and persons.first[person] == NONE:
            forget_person(shard, np.int64(person))


@entry
def introduce(shard: LastingArrays) -> None:
    """Index the restored persons by subject, and forget those absent for the horizon."""
    persons, groups = shard.persons, shard.groups
    for group in range(groups.now.used):
        if groups.forgotten[group] > 0:  # the settings may differ from those at the request
            generalize_group(shard, np.int64(group))
    for person in range(persons.now.used):
        number_of(persons.row, np.int64(0), persons.subject[person], np.int64(person))
    forget_old(shard, shard.groups.now.passed)


@entry
def rebuild_cells(shard: LastingArrays) -> None:
    """Rebuild the cells from all buffered tuples that can found a group."""
    rebuild(shard)


@leaf
def place(shard: LastingArrays, slot: Int) -> None:
    """Assign a number to a new tuple, update its person's latest values, and add it to the buffer or suppress it."""
    number(shard, slot)
    person = person_of(shard, slot)
    note_latest(shard, person, slot)
    if shard.persons.group[person] != NONE:
        touch_person(shard, person)
    is_late = is_too_late(shard, slot)
    wait(shard, slot, person, not is_late)
    if is_late:
        begin_decision(shard)
        suppress_or_generalize(shard, slot, shard.bound.reason)
        leave(shard, slot)
        end_decision(shard)
    elif shard.isolation.now.price > 0.0 and shard.cells.place[slot] != NONE:
        measure_radius(shard, slot)


@leaf
def wait(shard: LastingArrays, slot: Int, person: Int, may_found: bool) -> None:
    """Append a tuple to the buffer, as the youngest; insert it into a cell if it may found a group for its person."""
    shard.tuples.cluster[slot] = WAITS
    hold(shard, person, slot)
    if shard.persons.group[person] != NONE or not may_found:
        line_up(shard, slot)
        shard.cells.place[slot] = NONE
        return
    arrive(shard, slot)
    enter(shard, slot)
    for a in range(shard.codes.shape[1] - 1):
        shard.codes[slot, 1 + a] = shard.waiting.value[slot, a]


@leaf
def leave(shard: LastingArrays, slot: Int) -> None:
    """Remove a tuple that can found no group from the buffer."""
    detach_tuple(shard, slot)
    step_out(shard, slot)


@procedure
def release_tuple(shard: LastingArrays, slot: Int) -> None:
    """Publish or suppress an expiring tuple."""
    person = np.int64(shard.rows.person[slot])
    group = np.int64(shard.persons.group[person])
    if group == NONE:
        _release_first(shard, slot, person)
    elif not satisfies_models(shard, group):
        suppress_or_generalize(shard, slot, shard.bound.reason)
        leave(shard, slot)
    elif not stays_diverse(shard, group, person, slot):
        suppress_or_generalize(shard, slot, np.int64(VALUES))
        leave(shard, slot)
    else:
        _release_again(shard, slot, person, group)


@leaf
def _release_first(shard: LastingArrays, slot: Int, person: Int) -> None:
    """Publish a tuple of a person without group, by reuse as a borrower or with a new group, or suppress it."""
    published, other_loss = _hosting(shard, slot, person), np.inf
    if published != NONE:
        other_loss = published_loss(shard.domain, shard.omega.box, published)
    members, reason = choose_group(shard, slot, other_loss, _enclose_latest)
    if published != NONE and (reason != NONE or members < 0):
        host = np.int64(shard.host[published])
        reuse(shard, slot, published)
        join(shard, person, host, False)
        leave(shard, slot)
    elif reason != NONE:
        suppress_or_generalize(shard, slot, reason)
        _leave_unknown(shard, slot)
    else:
        _found_group(shard, members)


@leaf
def _enclose_latest(shard: LastingArrays, members: Int) -> bool:
    """Enlarge the generalization of the grown group until it covers the latest values of its persons as well."""
    for i in range(members):
        enclose(shard.domain, shard.box, np.int64(0), latest(shard), np.int64(shard.rows.person[shard.group[i]]))
    return True


@leaf
def _leave_unknown(shard: LastingArrays, slot: Int) -> None:
    """Remove a tuple of a person without group from the buffer."""
    drop(shard, slot)
    depart(shard, slot)
    detach_tuple(shard, slot)


@leaf
def _hosting(shard: LastingArrays, slot: Int, person: Int) -> Int:
    """Return the row of Omega of a random group that can accept a person as borrower, ``NONE`` if there is none.

    The generalization contains the tuple, the person's latest values, and those of all members.
    """
    omega, matches = shard.omega, shard.omega.by_attribute.matches
    found_rows = containing_rows(shard, slot)
    kept = 0
    for i in range(found_rows):
        row = np.int64(matches[i])
        group = np.int64(shard.host[row])
        if (
            group != NONE
            and shard.groups.id[group] == omega.release[row]
            and shard.groups.forgotten[group] == 0
            and contains(shard.domain, omega.box, row, latest(shard), person)
            and all_within(shard, omega.box, row, group)
            and satisfies_models(shard, group)
        ):
            matches[kept] = row
            kept += 1
    shard.repairs.now.candidates = kept
    if kept == 0:
        return np.int64(NONE)
    return np.int64(matches[randbelow(shard.random, kept)])


@leaf
def _found_group(shard: LastingArrays, members: Int) -> None:
    """Release the grown group and make its persons an anonymity set."""
    out, tuples, tally = shard.out, columns(shard), shard.counter.tally
    release, start = out.filled.releases, out.filled.members
    stop = start + members
    for i in range(members):
        out.members[start + i] = shard.group[i]
    stop, _ = validate_and_shuffle(shard, tuples, start, stop)
    newest = enclose_all(shard, out.box, release, tuples, out.members[start:stop])
    assign(out.box, release, shard.box, np.int64(0))
    loss = info_loss(shard.domain, out.box, release)
    round_outwards(shard.domain, out.box, release)
    group = found_group(shard, out.members[start:stop], release)
    update_tau(shard, loss)
    if len(shard.host) > 0:
        shard.host[shard.now.omega_next] = group
    keep(shard, release, tally.persons[0], loss)
    _close(shard, np.int64(CLUSTER), np.int64(tally.persons[0]), stop, newest)


@procedure
def _release_again(shard: LastingArrays, slot: Int, person: Int, group: Int) -> None:
    """Release a later tuple of a person in a group, with the group's buffered tuples inside the same box."""
    out, tuples, domain, groups = shard.out, shard.tuples, shard.domain, shard.groups
    release, start, kind = out.filled.releases, out.filled.members, np.int64(AGAIN)
    box = out.box
    assign(box, release, groups.box, group)
    if not (
        contains(domain, box, release, points(tuples), slot)
        and contains(domain, box, release, latest(shard), person)
        and (shard.bound.moved == _COUNT or all_within(shard, box, release, group))
    ):
        if shard.bound.moved == _SUPPRESS:
            suppress_or_generalize(shard, slot, shard.bound.reason)
            leave(shard, slot)
            return
        kind = np.int64(WIDENED)
        if shard.bound.moved == _WIDEN:
            assign(box, release, points(tuples), slot)
            enclose_members(shard, box, release, group)
        else:
            enclose(domain, box, release, points(tuples), slot)
        enclose(domain, box, release, latest(shard), person)
        round_outwards(domain, box, release)
    subjects = count_within(shard, box, release, group)
    if subjects < shard.config.k and shard.bound.moved != _COUNT:
        raise InvariantError(
            "too few members of an anonymity set lie in a generalization; nothing of this release was emitted"
        )
    if kind == WIDENED:
        assign(groups.box, group, box, release)
        touch_group(shard, group)
    out.members[start] = slot
    stop, newest = start + 1, np.int64(tuples.event_time[slot])
    publish(shard, person, slot)
    beside = _beside(shard, group, release, slot)
    for i in stable_order(tuples.position[beside]):  # the result must not depend on the order of persons
        row = np.int64(beside[i])
        other = np.int64(shard.rows.person[row])
        if stays_diverse(shard, group, other, row):
            out.members[stop] = row
            stop += 1
            newest = max(newest, np.int64(tuples.event_time[row]))
            publish(shard, other, row)
    for a in range(out.diversity.shape[1]):
        out.diversity[release, a] = lasting_diversity(shard, group, a, np.int64(NONE), np.uint64(0))
    if subjects < shard.config.k:
        _note_below(shard, start, stop)
    shuffle(shard.random, out.members, start, stop)
    _close(shard, kind, subjects, stop, newest)


@leaf
def _note_below(shard: LastingArrays, start: Int, stop: Int) -> None:
    """Count the persons of a release that covers fewer than k members."""
    persons = shard.persons
    for i in range(start, stop):
        person = np.int64(shard.rows.person[shard.out.members[i]])
        if not persons.below[person]:
            persons.below[person] = True
            persons.now.below_k += 1
            touch_person(shard, person)


@procedure
def _beside(shard: LastingArrays, group: Int, release: Int, slot: Int) -> NDArray[np.int64]:
    """Return the slots of a group's buffered tuples in the box of a release, without ``slot``, unordered."""
    box, persons, rows, beside = shard.out.box, shard.persons, shard.rows, np.int64(0)
    person = np.int64(shard.groups.first[group])
    while person != NONE:
        row = np.int64(persons.first[person])
        if row != NONE and contains(shard.domain, box, release, latest(shard), person):
            while row != NONE:
                if row != slot and contains(shard.domain, box, release, points(shard.tuples), row):
                    shard.group[beside] = row
                    beside += 1
                row = np.int64(rows.next[row])
        person = np.int64(persons.next[person])
    return shard.group[:beside]


@leaf
def _close(shard: LastingArrays, kind: Int, subjects: Int, stop: Int, newest: Int) -> None:
    out, tuples = shard.out, columns(shard)
    start, release = out.filled.members, out.filled.releases
    require_inside(shard, tuples, out.box, release, stop)
    complete(shard, tuples.position, kind, subjects, published_loss(shard.domain, out.box, release), stop, newest)
    for i in range(start, stop):
        leave(shard, np.int64(out.members[i]))
