"""The promises on sensitive values, as their papers define them, from counts of persons by value.

Numbers of type float are rounded where they are computed: what breaks a promise by less than ``ROUNDED`` keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import log

from crenel.anonymity.model.reference import Reference

ROUNDED = 1e-8


def diversity(persons: int, counts: Sequence[int]) -> int:
    """The largest l for which the l - 1 commonest values, together, name fewer than all persons.

    ``counts``: persons who have each value. Distinct l-diversity where nobody has two (Machanavajjhala and others,
    2007; ``docs/privacy.md``).
    """
    named = 0
    for found, count in enumerate(sorted(counts, reverse=True), 1):
        named += count
        if named >= persons:
            return found
    return len(counts)


def falling(persons: int, counts: Sequence[int]) -> list[int]:
    """Counts of persons, the largest first, of whom each counts once: for the commonest value that is not full yet."""
    once, left = [], persons
    for count in sorted(counts, reverse=True):
        once.append(min(count, left))
        left -= once[-1]
    return [count for count in once if count]


def keeps_alpha(alpha: float, counts: Sequence[int]) -> bool:
    """No value has more than a share alpha (Wong and others, 2006, Definition 2); ``counts`` as ``falling`` gives."""
    return counts[0] <= alpha * sum(counts) * (1 + ROUNDED)


def keeps_entropy(least: float, counts: Sequence[int]) -> bool:
    """Entropy l-diversity (Machanavajjhala and others, 2007, Definition 4.1)."""
    persons = sum(counts)
    return -sum(count / persons * log(count / persons) for count in counts) >= log(least) - ROUNDED


def keeps_recursive(factor: float, place: float, counts: Sequence[int]) -> bool:
    """Recursive (c, l)-diversity (Machanavajjhala and others, 2007, Definition 4.2)."""
    return counts[0] < factor * sum(counts[int(place) - 1 :]) * (1 + ROUNDED)


def keeps_beta(beta: float, counts: Mapping[str, int], reference: Reference) -> bool:
    """No value is more than 1 + beta times as common as in the reference (Cao and Karras, 2012, Definition 2)."""
    usual, persons = dict(zip(reference.values, reference.shares, strict=True)), sum(counts.values())
    return all(count / persons <= (1 + beta) * usual.get(value, 0.0) * (1 + ROUNDED) for value, count in counts.items())


def keeps_t(most: float, counts: Mapping[str, int], reference: Reference) -> bool:
    """t-closeness (Li, Li and Venkatasubramanian, 2007, Section 5), by the distance that the reference names."""
    return distance(counts, reference) <= most + ROUNDED


def distance(counts: Mapping[str, int], reference: Reference) -> float:
    """The Earth Mover's Distance of persons by value to a reference, 0 to 1; a value that it lacks is 1 from all."""
    persons = sum(counts.values())
    usual = dict(zip(reference.values, reference.shares, strict=True))
    strange = sum(count for value, count in counts.items() if value not in usual) / persons
    held = {value: counts.get(value, 0) / persons for value in usual}
    if reference.distance == "equal":
        return strange + sum(max(held[value] - share, 0.0) for value, share in usual.items())
    # What is strange stands for some of every value alike; what is left moves among the others.
    over = {value: held[value] - (1 - strange) * share for value, share in usual.items()}
    if reference.distance == "ordered" or reference.hierarchy is None:
        return strange + sum(map(abs, list(accumulate(over.values()))[:-1])) / max(len(over) - 1, 1)
    below: dict[tuple[str, ...], float] = {}
    ways = {way[0]: way for way in reference.hierarchy.paths()}
    for value, more in over.items():
        way = ways[value]
        for level in range(len(way) - 1):
            below[way[level:]] = below.get(way[level:], 0.0) + more
    # Each step up a tree of equal depth is half of 1 / depth: up on one side and down on the other.
    depth = max(len(next(iter(ways.values()))) - 1, 1)
    return strange + sum(map(abs, below.values())) / (2 * depth)
