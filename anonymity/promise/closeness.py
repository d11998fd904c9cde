"""t-closeness: values are as common in a release as elsewhere, but for a distance t (Li, Li and others, ICDE 2007).

The Earth Mover's Distance between a release and the reference is t at most (Section 4). Here all values are equally
far from each other (Section 5, equal distance), so it is the sum of what the release has in excess of each. Two sets
that satisfy do so together; a set may stop to satisfy when one tuple comes to it.

Somebody who has several values counts for those of which the reference has least, as far as counts sum up to the
persons: however an observer picks one value of each person, the distance is no larger.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anonymity.promise.record import Promise, add_promise

_EXACT = 1e-9
"""A distance of just t may be a little more in rounded numbers."""


def lacking(persons: int, counts: Any, parameters: Any, rows: Any, reference: Any) -> float:
    """By how much the distance is above t."""
    held = 0
    for count in counts:
        held += count
    # Of persons in excess all are counted, then what the reference has of their values is taken off.
    excess, share = 0, 0.0
    if held == persons:  # nobody has several values
        for i in range(len(counts)):
            usual = reference[rows[i]] if rows[i] >= 0 else 0.0
            if counts[i] > usual * persons:
                excess += counts[i]
                share += usual
    else:
        price = np.zeros(len(counts))
        for i in range(len(counts)):
            price[i] = reference[rows[i]] / counts[i] if rows[i] >= 0 else 0.0
        for i in np.argsort(price, kind="mergesort"):
            part = min(counts[i], persons - excess)
            if price[i] * persons < 1.0:
                excess += part
                share += price[i] * part
    missing = excess / persons - share - parameters[0]
    return missing if missing > _EXACT else 0.0


T = add_promise(
    Promise(
        name="t",
        parameter="a number above 0 and at most 1: t-closeness to the reference",
        allowed=lambda t, k: 0 < t <= 1,
        lacking=lacking,
        reason="t",
        compares=True,
    )
)
