"""Anonymity sets: persons released together first, whom an attacker cannot tell apart in later releases either.

Guarantee and proof. The attacker knows the values of all persons at all times, and which rows belong to one target
person. For each such row, the attacker takes all persons whose latest values lie in its generalization, and intersects
these candidate sets over the target's rows since its group was founded. Each of the target's rows
1. was published at the founding, under a box around the latest values of all members (``found_group``);
2. or later, under a box that contains the latest values of all members at that moment (``all_within``) and the
   target's own;
3. or alone, by reuse of such a box, when the target joined the group as a borrower (``join``).
So each candidate set contains all members, and the intersection has at least k persons. Members are the persons of the
anonymity set; borrowers share its generalization without being counted. No member leaves a group while any member has
rows within the horizon. Borrowers may leave, because boxes need not cover them. No row of a person is published under
another group. A person that joins enlarges the candidate sets and removes no one. A person that returns after the
horizon counts as new, with a new anonymity set: the guarantee covers rows within the horizon.

A late tuple may be that of a person who is no longer known, and nothing tells so. Persons therefore stay known for an
eighth of the horizon beyond it (``bound.step``), and a tuple that is as late is suppressed (``is_too_late``). All other
tuples are further than the horizon from those of persons who were forgotten before.

A member forgotten on request (``forget_subject``) still counts for the others, although nothing about the member is
stored. The member may return under any values, and nothing tells that it is the same person. So the group's box becomes
fully general, which no values lie outside of, and the group accepts no more borrowers. Where a full generalization may
not be published, the group may publish no more. The code assumes the worst about the member's sensitive values that
were published by then; those of a person who returns are not counted.

The same holds for l. The members' sensitive values, over all their published rows, are l-diverse at the founding.
``stays_diverse`` blocks each row that would end this. Borrowers' own values reveal nothing about the members.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.nearest.cells import drop
from crenel.anonymity.algorithms.nearest.lasting.arrays import MOST_VALUES, MOVED, LastingArrays
from crenel.anonymity.algorithms.nearest.lasting.persons import forget_person, touch_person
from crenel.anonymity.compiled.arrays import stable_order
from crenel.anonymity.compiled.jit import Int, inner, leaf, procedure
from crenel.anonymity.privacy_models.buffered_values import remove_buffered
from crenel.anonymity.privacy_models.counting import numbered
from crenel.anonymity.space.boxes import assign, contains, enclose, fully_generalize
from crenel.anonymity.space.domain import NONE, Boxes
from crenel.anonymity.space.ends import round_outwards

_SUPPRESS = MOVED.index("suppress")


@inner
def latest(shard: LastingArrays) -> Boxes:
    """Return the latest values of all persons, as boxes."""
    return Boxes(shard.persons.numeric, shard.persons.numeric, shard.persons.leaf)


@leaf
def found_group(shard: LastingArrays, members: NDArray[np.int32], release: Int) -> Int:
    """Found a group of the persons in a release of this step (slots ``members``) and return the group's row."""
    groups, rows = shard.groups, shard.rows
    now = groups.now
    if now.freed > 0:
        now.freed -= 1
        group = np.int64(groups.free[now.freed])
    else:
        group = np.int64(now.used)
        now.used += 1
    now.known += 1
    groups.id[group] = shard.now.next_release
    assign(groups.box, group, shard.out.box, release)
    groups.first[group] = NONE
    groups.members[group] = groups.forgotten[group] = 0
    for i in range(len(members)):
        person = np.int64(rows.person[members[i]])
        if shard.persons.group[person] == NONE:
            join(shard, person, group, True)
            groups.members[group] += 1
        publish(shard, person, np.int64(members[i]))
    touch_group(shard, group)
    return group


@leaf
def join(shard: LastingArrays, person: Int, group: Int, is_member: bool) -> None:
    """Add a person to a group, as member or as borrower; the person's buffered tuples can found no other group."""
    persons, tuples = shard.persons, shard.tuples
    persons.group[person] = group
    persons.core[person] = is_member
    persons.next[person] = shard.groups.first[group]
    shard.groups.first[group] = person
    shard.groups.now.earliest = min(shard.groups.now.earliest, persons.event_time[person])
    touch_person(shard, person)
    slot = np.int64(persons.first[person])
    while slot != NONE:
        drop(shard, slot)
        remove_buffered(shard.waiting, shard.checks, slot, tuples.subject[slot], tuples.sensitive, True)
        slot = np.int64(shard.rows.next[slot])


@leaf
def publish(shard: LastingArrays, person: Int, slot: Int) -> None:
    """Record the sensitive values of a tuple at its publication."""
    persons = shard.persons
    for a in range(persons.held.shape[1]):
        if not _holds(shard, person, a, shard.tuples.sensitive[slot, a]):
            held = persons.held[person, a]
            if held < MOST_VALUES:
                persons.values[person, a, held] = shard.tuples.sensitive[slot, a]
            persons.held[person, a] = min(held + 1, MOST_VALUES + 1)
            touch_person(shard, person)


@leaf
def _holds(shard: LastingArrays, person: Int, attribute: Int, code: Int) -> bool:
    persons = shard.persons
    for i in range(min(persons.held[person, attribute], MOST_VALUES)):
        if persons.values[person, attribute, i] == code:
            return True
    return False


@leaf
def all_within(shard: LastingArrays, boxes: Boxes, row: Int, group: Int) -> bool:
    """Return whether a box contains the latest values of all members."""
    persons, person = shard.persons, np.int64(shard.groups.first[group])
    while person != NONE:
        if persons.core[person] and not contains(shard.domain, boxes, row, latest(shard), person):
            return False
        person = np.int64(persons.next[person])
    return True


@leaf
def count_within(shard: LastingArrays, boxes: Boxes, row: Int, group: Int) -> Int:
    """Return the number of members whose latest values lie in a box, which contains the group's box."""
    persons, person = shard.persons, np.int64(shard.groups.first[group])
    within = np.int64(shard.groups.forgotten[group])
    while person != NONE:
        within += persons.core[person] and contains(shard.domain, boxes, row, latest(shard), person)
        person = np.int64(persons.next[person])
    return within


@leaf
def enclose_members(shard: LastingArrays, boxes: Boxes, row: Int, group: Int) -> None:
    """Enlarge a box, by no more than needed, until it contains the latest values of all members."""
    persons, person = shard.persons, np.int64(shard.groups.first[group])
    while person != NONE:
        if persons.core[person]:
            enclose(shard.domain, boxes, row, latest(shard), person)
        person = np.int64(persons.next[person])


@leaf
def satisfies_models(shard: LastingArrays, group: Int) -> bool:
    """Return whether the anonymity set satisfies the current k and l, which a restart may have raised."""
    if shard.groups.members[group] < shard.config.k:
        return False
    for a in range(shard.persons.held.shape[1]):
        if shard.bound.values > 1 and lasting_diversity(shard, group, a, NONE, np.uint64(0)) < shard.bound.values:
            return False
    return True


@leaf
def stays_diverse(shard: LastingArrays, group: Int, person: Int, slot: Int) -> bool:
    """Return whether the anonymity set remains l-diverse after the publication of a person's tuple."""
    if shard.bound.values <= 1 or not shard.persons.core[person]:
        return True
    for a in range(shard.persons.held.shape[1]):
        code = shard.tuples.sensitive[slot, a]
        if not _holds(shard, person, a, code) and (
            shard.persons.held[person, a] >= MOST_VALUES
            or lasting_diversity(shard, group, a, person, code) < shard.bound.values
        ):
            return False
    return True


@procedure
def lasting_diversity(shard: LastingArrays, group: Int, attribute: Int, person: Int, code: np.uint64) -> Int:
    """Return the diversity of all values published of the members; 1 where it is unknown.

    Diversity is that of ``crenel.anonymity.privacy_models.tally``. A member forgotten on request may have
    published any value, so the result is the minimum over all possibilities.

    Parameters
    ----------
    person, code : a person and a value of that person to count as published, ``NONE`` for no such person
    """
    persons, groups = shard.persons, shard.groups
    members, forgotten = groups.members[group], groups.forgotten[group]
    codes = np.empty(members * MOST_VALUES + 1, np.uint64)
    size = 0
    other = np.int64(groups.first[group])
    while other != NONE:
        if persons.core[other]:
            if persons.held[other, attribute] > MOST_VALUES:
                return np.int64(1)
            for i in range(persons.held[other, attribute]):
                codes[size] = persons.values[other, attribute, i]
                size += 1
        other = np.int64(persons.next[other])
    if person != NONE:
        codes[size] = code
        size += 1
    order, times, different = stable_order(codes[:size]), np.zeros(size, np.int64), 0
    for i in range(size):
        different += i > 0 and codes[order[i]] != codes[order[i - 1]]
        times[different] += 1
    rising = stable_order(times)
    diverse, total = np.int64(1), np.int64(0)
    for i in range(different + 1 if size > 0 else 0):
        total += times[rising[size - 1 - i]] + forgotten
        if total >= members:
            break
        diverse += 1
    return diverse


@procedure
def forget_subject(shard: LastingArrays, subject: Int) -> None:
    """Forget a person on request, after the removal of all the person's buffered tuples."""
    persons, groups = shard.persons, shard.groups
    person = numbered(persons.row, np.int64(0), subject)
    if person == NONE:
        return
    group = np.int64(persons.group[person])
    other = np.int64(groups.first[group])
    if other == person:
        groups.first[group] = persons.next[person]
    else:
        while persons.next[other] != person:
            other = np.int64(persons.next[other])
        persons.next[other] = persons.next[person]
    if persons.core[person]:
        groups.forgotten[group] += 1
        generalize_group(shard, group)
    forget_person(shard, person)
    other = np.int64(groups.first[group])
    if other == NONE:
        _forget_group(shard, group)
    while other != NONE:  # the forgotten person may have had the newest event time
        groups.now.earliest = min(groups.now.earliest, persons.event_time[other])
        other = np.int64(persons.next[other])


@leaf
def generalize_group(shard: LastingArrays, group: Int) -> None:
    """Fully generalize the box of a group with a forgotten member, so that it contains the member's values for ever.

    With ``Persons.moved: suppress``, or an attribute without a domain, whose full generalization is a range of observed
    values, the group may publish no more instead.
    """
    domain, groups = shard.domain, shard.groups
    fully_generalize(domain, groups.box, group)
    round_outwards(domain, groups.box, group)
    if shard.bound.moved == _SUPPRESS:
        groups.members[group] = 0
    for a in range(len(domain.declared)):
        if not domain.declared[a]:
            groups.members[group] = 0
    touch_group(shard, group)


@leaf
def touch_group(shard: LastingArrays, group: Int) -> None:
    """Mark a group as different from its stored entry."""
    groups = shard.groups
    if not groups.changed[group]:
        groups.changed[group] = True
        groups.touched[groups.now.touched] = group
        groups.now.touched += 1


@leaf
def forget_old(shard: LastingArrays, watermark: Int) -> None:
    """Forget groups and borrowers without tuples for the horizon and a step, whenever a step has passed."""
    now, horizon, step = shard.groups.now, shard.bound.horizon, shard.bound.step
    if horizon < 0 or watermark < -(1 << 62):
        return
    now.passed = max(now.passed, watermark - watermark % step)
    if now.known > 0 and now.earliest <= now.passed - horizon - step:
        _forget_before(shard, now.passed - horizon - step)


@leaf
def is_too_late(shard: LastingArrays, slot: Int) -> bool:
    """Return whether a new tuple may be within the horizon of a forgotten person's tuples."""
    bound, passed = shard.bound, shard.groups.now.passed
    return bool(bound.horizon >= 0 and shard.tuples.event_time[slot] + bound.step <= passed)


@procedure
def _forget_before(shard: LastingArrays, time: Int) -> None:
    persons, groups = shard.persons, shard.groups
    now = groups.now
    now.earliest = np.iinfo(np.int64).max
    for group in range(now.used):
        if groups.first[group] == NONE:
            continue
        newest, waits = np.iinfo(np.int64).min, False
        person = np.int64(groups.first[group])
        while person != NONE:
            newest = max(newest, persons.event_time[person])
            waits = waits or persons.first[person] != NONE
            person = np.int64(persons.next[person])
        everybody = newest <= time and not waits
        now.earliest = min(now.earliest, now.earliest if everybody else newest)
        before, person = np.int64(NONE), np.int64(groups.first[group])
        while person != NONE:
            following = np.int64(persons.next[person])
            away = persons.event_time[person] <= time and persons.first[person] == NONE
            if everybody or (away and not persons.core[person]):
                if before == NONE:
                    groups.first[group] = following
                else:
                    persons.next[before] = following
                forget_person(shard, person)
            else:
                before = person
                if not persons.core[person]:
                    now.earliest = min(now.earliest, persons.event_time[person])
            person = following
        if everybody:
            _forget_group(shard, np.int64(group))


@leaf
def _forget_group(shard: LastingArrays, group: Int) -> None:
    groups = shard.groups
    groups.id[group] = NONE
    if groups.entry[group] != NONE:
        groups.dropped[groups.now.dropped] = groups.entry[group]
        groups.now.dropped += 1
        groups.entry[group] = NONE
    groups.free[groups.now.freed] = group
    groups.now.freed += 1
    groups.now.known -= 1
