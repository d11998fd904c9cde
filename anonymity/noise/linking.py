"""Linking risk of noised values ((k, epsilon)-anonymity, Sections V-B and V-C).

With confidence, a record is suppressed if the linking range of its published value contains at least one subject of its
class but fewer than k (Section V-C). The same then holds among the records that remain. Equation (9) centers the range
on the published value, the line below it on the original one. This module uses the published value, because an attacker
sees only that one. The range around an original value always contains its own record, so the paper's remark on empty
ranges would be void.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import Int, leaf
from crenel.anonymity.noise.release_noise import NoiseArrays
from crenel.anonymity.privacy_models.tally import Slots


@leaf
def linking_range(scale: float, beyond: float) -> float:
    """Return the minimum whole r with P(|noise| > r) <= ``beyond``, for discrete Laplace noise of a scale in steps.

    For a scale of many steps this is the paper's -b ln(1 - c), ``beyond`` being 1 - c (Section V-C).
    """
    if scale <= 0.0:
        return 0.0
    ratio = np.exp(-1.0 / scale)
    return max(np.ceil(scale * np.log(2.0 / (beyond * (1.0 + ratio))) - 1.0 - 1e-9), 0.0)


@leaf
def near(
    noise: NoiseArrays, member: Int, ranked: Slots, first: NDArray[np.float64], subject: NDArray[np.uint64]
) -> Int:
    """Count the subjects inside the linking range of a tuple's published value, up to the required number.

    Parameters
    ----------
    ranked, first : (members,) the class ordered by its first noised attribute, and that attribute's values; a subject
        in the range is within it in the first attribute too
    subject : (slots,) keyed hashes
    """
    shown, reach = noise.shown[member, 0], noise.reach[0]
    count = np.int64(0)
    for i in range(_rank(first, shown - reach), len(ranked)):
        if first[i] > shown + reach or count == noise.config.subjects:
            break
        other = ranked[i]
        known = False
        for a in range(1, noise.value.shape[1]):
            known |= abs(noise.value[other, a] - noise.shown[member, a]) > noise.reach[a]
        for j in range(count if noise.config.by_name != 0 else 0):
            known |= noise.near[j] == subject[other]
        if not known:
            noise.near[count] = subject[other]
            count += 1
    return count


@leaf
def nearest_is_own(
    noise: NoiseArrays, member: Int, ranked: Slots, first: NDArray[np.float64], subject: NDArray[np.uint64]
) -> bool:
    """Return whether no other subject's value is nearer to a tuple's published value than its own subject's.

    Distances over several attributes are summed, each relative to its domain.
    """
    by_name, domain, shown = noise.config.by_name != 0, noise.domain[0], noise.shown[member, 0]
    own, other = _apart(noise, member, member), np.inf
    above = _rank(first, shown)
    below = above - 1
    while True:
        up = (first[above] - shown) / domain if above < len(first) else np.inf
        down = (shown - first[below]) / domain if below >= 0 else np.inf
        nearer = min(up, down)
        if nearer >= own or nearer > other or (other < own and not by_name):
            return bool(own <= other)
        i = above if up <= down else below
        above += up <= down
        below -= up > down
        apart = _apart(noise, np.int64(ranked[i]), member)
        if by_name and subject[ranked[i]] == subject[member]:
            own = min(own, apart)
        elif ranked[i] != member:
            other = min(other, apart)


@leaf
def _rank(first: NDArray[np.float64], value: float) -> Int:
    """Return the number of ascending values below another."""
    low, high = np.int64(0), np.int64(len(first))
    while low < high:
        middle = (low + high) // 2
        if first[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def _apart(noise: NoiseArrays, original: Int, published: Int) -> float:
    total = 0.0
    for a in range(noise.value.shape[1]):
        total += abs(noise.value[original, a] - noise.shown[published, a]) / noise.domain[a]
    return total
