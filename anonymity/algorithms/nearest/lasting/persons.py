"""Persons with buffered tuples or an anonymity set: identity, latest values and buffered tuples."""

from __future__ import annotations

import numpy as np

from crenel.anonymity.algorithms.nearest.lasting.arrays import LastingArrays
from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.privacy_models.counting import number, numbered, unnumber
from crenel.anonymity.space.domain import NONE


@leaf
def person_of(shard: LastingArrays, slot: Int) -> Int:
    """Return the person of a new tuple, which is a new person where the subject is unknown."""
    persons, subject = shard.persons, shard.tuples.subject[slot]
    known_row = numbered(persons.row, np.int64(0), subject)
    if known_row != NONE:
        return known_row
    now = persons.now
    if now.freed > 0:
        now.freed -= 1
        row = np.int64(persons.free[now.freed])
    else:
        row = np.int64(now.used)
        now.used += 1
    number(persons.row, np.int64(0), subject, row)
    persons.subject[row] = subject
    persons.group[row] = persons.next[row] = persons.first[row] = NONE
    persons.core[row] = persons.below[row] = False
    persons.position[row] = persons.event_time[row] = NONE
    for a in range(persons.held.shape[1]):
        persons.held[row, a] = 0
    return row


@leaf
def note_latest(shard: LastingArrays, person: Int, slot: Int) -> None:
    """Record the values of a new tuple as the person's latest."""
    persons, tuples = shard.persons, shard.tuples
    first = persons.position[person] == NONE
    persons.position[person] = tuples.position[slot]
    persons.event_time[person] = (
        tuples.event_time[slot] if first else max(persons.event_time[person], tuples.event_time[slot])
    )
    for a in range(persons.numeric.shape[1]):
        persons.numeric[person, a] = tuples.numeric[slot, a]
    for a in range(persons.leaf.shape[1]):
        persons.leaf[person, a] = tuples.leaf[slot, a]


@leaf
def hold(shard: LastingArrays, person: Int, slot: Int) -> None:
    """Link a buffered tuple to its person."""
    shard.rows.person[slot] = person
    shard.rows.next[slot] = shard.persons.first[person]
    shard.persons.first[person] = slot


@leaf
def detach_tuple(shard: LastingArrays, slot: Int) -> None:
    """Unlink a tuple that leaves the buffer; forget a person without group and without other buffered tuples."""
    persons, rows = shard.persons, shard.rows
    person = np.int64(rows.person[slot])
    if persons.first[person] == slot:
        persons.first[person] = rows.next[slot]
    else:
        other = np.int64(persons.first[person])
        while rows.next[other] != slot:
            other = np.int64(rows.next[other])
        rows.next[other] = rows.next[slot]
    rows.person[slot] = rows.next[slot] = NONE
    if persons.group[person] == NONE:
        touch_person(shard, person)  # the latest values may be those of the departed tuple
        if persons.first[person] == NONE:
            forget_person(shard, person)


@leaf
def touch_person(shard: LastingArrays, person: Int) -> None:
    """Mark a person as different from its stored entry."""
    persons = shard.persons
    if not persons.changed[person]:
        persons.changed[person] = True
        persons.touched[persons.now.touched] = person
        persons.now.touched += 1


@leaf
def forget_person(shard: LastingArrays, person: Int) -> None:
    """Forget a person; a later tuple of the subject belongs to a new person."""
    persons = shard.persons
    unnumber(persons.row, np.int64(0), persons.subject[person])
    persons.subject[person] = np.uint64(0)
    persons.group[person] = persons.next[person] = NONE
    if persons.entry[person] != NONE:
        persons.dropped[persons.now.dropped] = persons.entry[person]
        persons.now.dropped += 1
        persons.entry[person] = NONE
    persons.free[persons.now.freed] = person
    persons.now.freed += 1
