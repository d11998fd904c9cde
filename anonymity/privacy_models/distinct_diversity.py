"""l-diversity that counts people, not values.

A set is l-diverse when no l - 1 values are enough to name, for every person in it, a value that this person has. Were
they enough, an observer would know of everybody one of l - 1 values. Where nobody has several values this is distinct
l-diversity.

The l - 1 values that most persons have cannot name a value for each person if, persons summed over these values, they
are held by fewer persons than there are: each person needs one of them, and each other choice of l - 1 values is held
by no more. So the sum is enough; for l = 2, and where nobody has several values, it is needed as well.
"""

from __future__ import annotations

import numpy as np

from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.privacy_models.tally import Tally


@leaf
def diversity(tally: Tally, attribute: Int) -> Int:
    """The largest l for which a set is l-diverse, by the sum of its commonest values."""
    persons = tally.persons[0]
    if tally.held[attribute] == persons:  # nobody has several values
        return tally.values[attribute]
    found, total = np.int64(1), np.int64(0)
    below = np.int64(2**62)
    while True:
        most, times = np.int64(0), np.int64(0)
        for i in range(tally.used[attribute]):
            count = tally.counts[attribute, i]
            if count < below and count > most:
                most, times = count, np.int64(1)
            elif count == most:
                times += 1
        if most == 0:
            return found
        for _ in range(times):
            total += most
            if total >= persons:
                return found
            found += 1
        below = most
