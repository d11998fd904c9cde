"""l-diversity that counts persons, not values.

A set is l-diverse if no l - 1 values include a value of every person in it. Otherwise an attacker would know that each
person has one of l - 1 values. Where no person has several values, this is distinct l-diversity.

Take the l - 1 most common values and sum their counts of persons. If the sum is below the number of persons, these
values cannot include a value of every person. Any other l - 1 values have a smaller sum or the same one. The test is
therefore sufficient. It is also necessary for l = 2, and where no person has several values.
"""

from __future__ import annotations

import numpy as np

from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.privacy_models.tally import Tally


@leaf
def diversity(tally: Tally, attribute: Int) -> Int:
    """Return the largest l for which the counts of the most common values prove a set l-diverse."""
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
