"""Why was this group formed: minimality.

After Wong and others, "Minimality Attack in Privacy Preserving Data Publishing" (2007). Who knows everybody's
quasi-identifiers, and how groups are formed, can form them anew with the sensitive values of each group exchanged among
its members. Values under which the group would not have been formed are not theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crenel.evidence.attack.result import Tries
from crenel.evidence.attack.search import Integers
from crenel.evidence.replay import Replayed, replay_outputs
from crenel.evidence.sample import Sample
from crenel.evidence.setting import Setting

_LEAST = 5
"""Times that a group was formed anew, at least, for the observer to think it over."""


def minimality(
    sample: Sample,
    setting: Setting,
    column: int,
    draws: int,
    random: np.random.Generator,
    told: Callable[[], None] = lambda: None,
) -> tuple[Tries, Tries]:
    """Guesses of the value of each member of a release, and guesses of the commonest value of that release.

    The observer knows even the seed, as if nothing were random.

    Parameters
    ----------
    column : which sensitive attribute
    draws : how often the values are exchanged
    told : called after each
    """
    codes, value = np.unique(sample.tuples.sensitive[:, column], return_inverse=True)
    value = value.reshape(-1)
    first = replay_outputs(sample, setting)
    group = _groups(first)
    member = first.row
    names = _named(first, group)
    votes = np.zeros((len(member), len(codes)), np.int32)
    formed = np.zeros(int(group.max(initial=-1)) + 1, np.int32)
    order = np.argsort(group, kind="stable")
    for _ in range(draws):
        mixed = value.copy()
        # Within each group: sorted by a random number, the group first.
        mixed[member[order]] = value[member[order]][np.lexsort((random.random(len(order)), group[order]))]
        sensitive = sample.tuples.sensitive.copy()
        sensitive[:, column] = codes[mixed]
        again = replay_outputs(replace(sample, tuples=replace(sample.tuples, sensitive=sensitive)), setting)
        kept = np.isin(names, _named(again, _groups(again)))
        formed += kept
        rows = np.flatnonzero(kept[group])
        votes[rows, mixed[member[rows]]] += 1
        told()
    # Of who left alone there is nothing to be exchanged.
    used = ((formed >= _LEAST) & (np.bincount(group, minlength=len(formed)) > 1))[group]
    truth = value[member]
    common = np.zeros((len(formed), len(codes)), np.int32)
    np.add.at(common, (group, truth), 1)
    # What was seen a few times is weighed against how common a value is in the group.
    shares = common / np.maximum(common.sum(axis=1, keepdims=True), 1)
    guessed = np.argmax(votes + _LEAST * shares[group], axis=1)
    usual = np.argmax(common, axis=1)[group]
    tried = int(used.sum())
    right, without = (float((of == truth)[used].sum()) for of in (guessed, usual))
    return Tries(tried, right), Tries(tried, without)


def _groups(replayed: Replayed) -> Integers:
    """(released rows,) a number for each release."""
    both = np.column_stack([replayed.shard, replayed.release])
    return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _named(replayed: Replayed, group: Integers) -> NDArray[np.uint64]:
    """(releases,) a number that follows from who is in it."""
    mixed = replayed.row.astype(np.uint64) + np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    found = np.zeros(int(group.max(initial=-1)) + 1, np.uint64)
    np.add.at(found, group, mixed)
    return found
