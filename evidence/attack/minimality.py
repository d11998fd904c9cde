"""Minimality attack: inference from the fact that an algorithm formed a group.

After Wong and others, "Minimality Attack in Privacy Preserving Data Publishing" (2007). The attacker knows all
quasi-identifiers and the algorithm. The attacker permutes the sensitive values within each group and runs the algorithm
again. Values under which the group would not form are excluded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crenel.evidence.attack.result import Tries
from crenel.evidence.attack.search import Integers
from crenel.evidence.replay import Replayed, replay_outputs
from crenel.evidence.sample import Sample, Setting

_LEAST = 5
"""Minimum number of permutations that form the group again, for the attacker to guess."""


def minimality(
    sample: Sample,
    setting: Setting,
    column: int,
    draws: int,
    random: np.random.Generator,
    on_progress: Callable[[], None] = lambda: None,
) -> tuple[Tries, Tries]:
    """Guess the value of each member of a release; the baseline guesses the release's most common value.

    The attacker even knows the seed, so that the algorithm is deterministic.

    Parameters
    ----------
    column : index of the sensitive attribute; of an array, the attacker guesses all values together
    draws : number of permutations
    rank_by_release : called after each
    """
    begin = sum(sample.policy.widths[:column])
    columns = slice(begin, begin + sample.policy.widths[column])
    codes, value = np.unique(sample.tuples.sensitive[:, columns], axis=0, return_inverse=True)
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
        # Shuffle within each group: sort by group, then by a random number.
        mixed[member[order]] = value[member[order]][np.lexsort((random.random(len(order)), group[order]))]
        sensitive = sample.tuples.sensitive.copy()
        sensitive[:, columns] = codes[mixed]
        again = replay_outputs(replace(sample, tuples=replace(sample.tuples, sensitive=sensitive)), setting)
        kept = np.isin(names, _named(again, _groups(again)))
        formed += kept
        rows = np.flatnonzero(kept[group])
        votes[rows, mixed[member[rows]]] += 1
        on_progress()
    # Singleton releases have nothing to permute.
    used = ((formed >= _LEAST) & (np.bincount(group, minlength=len(formed)) > 1))[group]
    truth = value[member]
    common = np.zeros((len(formed), len(codes)), np.int32)
    np.add.at(common, (group, truth), 1)
    # The prior is the frequency of each value in the group, with the weight of `_LEAST` votes.
    shares = common / np.maximum(common.sum(axis=1, keepdims=True), 1)
    guessed = np.argmax(votes + _LEAST * shares[group], axis=1)
    usual = np.argmax(common, axis=1)[group]
    tried = int(used.sum())
    right, without = (float((of == truth)[used].sum()) for of in (guessed, usual))
    return Tries(tried, right), Tries(tried, without)


def _groups(replayed: Replayed) -> Integers:
    """Return (released rows,) the number of each row's release."""
    both = np.column_stack([replayed.shard, replayed.release])
    return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _named(replayed: Replayed, group: Integers) -> NDArray[np.uint64]:
    """Return (releases,) a hash of the set of members."""
    mixed = replayed.row.astype(np.uint64) + np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    found = np.zeros(int(group.max(initial=-1)) + 1, np.uint64)
    np.add.at(found, group, mixed)
    return found
