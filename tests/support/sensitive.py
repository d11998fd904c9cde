"""The promises beside k and l, judged anew in plain Python, exactly, from persons and their published values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from math import prod

import numpy as np
from scipy.optimize import linprog

from crenel.anonymity.model.reference import Reference

Person = Hashable
Value = Hashable

Shares = Mapping[Value, float]
"""How common each value is in a reference distribution, which sums up to 1."""

_ROUNDED = Fraction(1, 10**8)
"""The core rounds numbers; what keeps a promise by less than that may break it."""


def picks(rows: Iterable[tuple[Person, Value]]) -> Iterator[Counter[Value]]:
    """Persons by value, of ways to pick one of each person's values.

    Where nobody has several values there is one way. Of the others these are the extreme ones, in which as many as can
    be have the first of the values in some order, of the rest as many as can be the second, and so on: how many can be
    given some values is a submodular function, so all other ways are mixtures of these.
    """
    of: dict[Person, set[Value]] = {}
    for who, value in rows:
        of.setdefault(who, set()).add(value)
    several = any(len(values) > 1 for values in of.values())
    values = sorted(set().union(*of.values()), key=repr)
    for order in permutations(values) if several else [tuple(values)]:
        yield Counter(next(value for value in order if value in held) for held in of.values())


def keeps(name: str, parameter: Sequence[float], counts: Sequence[int]) -> bool:
    """Return whether counts of persons, largest first, satisfy a model; decimals are taken as written."""
    first, *rest = (Fraction(str(number)) for number in parameter)
    persons = sum(counts)
    if name == "alpha":
        return counts[0] <= first * persons
    if name == "entropy_l":
        # log l <= sum of -p log p, as powers: no logarithm is exact.
        scale, power = first.denominator, first.numerator
        return persons**persons * scale**persons >= power**persons * prod(count**count for count in counts)
    if name == "recursive":
        return counts[0] < first * sum(counts[int(rest[0]) - 1 :])
    raise ValueError(f"no judge of the promise {name!r}")


Ground = Callable[[Value, Value], float]
"""How far two values are from each other, 0 to 1."""


def apart(one: Value, other: Value) -> float:
    """Return the equal distance."""
    return float(one != other)


def ground_of(reference: Reference) -> Ground:
    """Return the distances of a reference; a value that it has not got is 1 from every other."""
    place, tree = {value: i for i, value in enumerate(reference.values)}, reference.hierarchy
    ways = {} if tree is None else {way[0]: way for way in tree.paths()}

    def ground(one: Value, other: Value) -> float:
        if one == other or reference.distance == "equal":
            return apart(one, other)
        if one not in place or other not in place:
            return 1.0
        if reference.distance == "ordered":
            return abs(place[one] - place[other]) / (len(place) - 1)
        pairs = list(zip(ways[str(one)], ways[str(other)], strict=True))
        return [a == b for a, b in pairs].index(True) / (len(pairs) - 1)

    return ground


def distance(counts: Mapping[Value, int], reference: Shares, ground: Ground = apart) -> float:
    """Return the Earth Mover's Distance of counts of persons to a reference: the cheapest way to move one onto it."""
    persons, held, usual = sum(counts.values()), list(counts), list(reference)
    cost = [[ground(one, other) for other in usual] for one in held]
    leaves, comes = np.kron(np.eye(len(held)), np.ones(len(usual))), np.kron(np.ones(len(held)), np.eye(len(usual)))
    shares = [counts[value] / persons for value in held] + [reference[value] for value in usual]
    found = linprog(np.ravel(cost), A_eq=np.vstack([leaves, comes])[:-1], b_eq=shares[:-1])
    return float(found.fun)


def likeness(counts: Mapping[Value, int], reference: Shares) -> Fraction | None:
    """Return the largest (p - q) / q of a value's shares p and q of a reference; None: a value is not in it."""
    persons = sum(counts.values())
    usual = {value: Fraction(reference.get(value, 0)) for value in counts}
    if not all(usual.values()):
        return None
    return max((Fraction(count, persons) - usual[value]) / usual[value] for value, count in counts.items())


def keeps_beside(
    name: str, limit: float, counts: Mapping[Value, int], reference: Shares, ground: Ground = apart
) -> bool:
    """Return whether counts of persons by value satisfy a model that compares them with a reference."""
    if name == "t":
        return distance(counts, reference, ground) <= limit + float(_ROUNDED)
    if name == "beta":
        most = likeness(counts, reference)
        return most is not None and most <= Fraction(str(limit)) * (1 + _ROUNDED) + _ROUNDED
    raise ValueError(f"no judge of the promise {name!r}")


def kept(
    name: str,
    parameter: Sequence[float],
    rows: Iterable[tuple[Person, Value]],
    reference: Shares | None = None,
    ground: Ground = apart,
) -> bool:
    """Return whether a set satisfies a model for any choice of one value of each person."""
    if reference is not None and name in ("t", "beta"):
        return all(keeps_beside(name, parameter[0], counts, reference, ground) for counts in picks(rows))
    return all(keeps(name, parameter, sorted(counts.values(), reverse=True)) for counts in picks(rows))
