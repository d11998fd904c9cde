"""The promises beside k and l, judged anew in plain Python, exactly, from persons and their published values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from math import prod

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
    """Whether counts of persons, largest first, keep a promise; decimals are taken as they are written."""
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


def distance(counts: Mapping[Value, int], reference: Shares) -> Fraction:
    """The Earth Mover's Distance of counts of persons to a reference, all values equally far from each other."""
    persons = sum(counts.values())
    both = {value: (Fraction(counts.get(value, 0), persons), Fraction(reference.get(value, 0))) for value in counts}
    elsewhere = 1 - sum(usual for _, usual in both.values())
    return (sum(abs(share - usual) for share, usual in both.values()) + elsewhere) / 2


def likeness(counts: Mapping[Value, int], reference: Shares) -> Fraction | None:
    """The largest (p - q) / q of a value's share p and its share q of a reference; None: a value is not in it."""
    persons = sum(counts.values())
    usual = {value: Fraction(reference.get(value, 0)) for value in counts}
    if not all(usual.values()):
        return None
    return max((Fraction(count, persons) - usual[value]) / usual[value] for value, count in counts.items())


def keeps_beside(name: str, limit: float, counts: Mapping[Value, int], reference: Shares) -> bool:
    """Whether counts of persons by value keep a promise that compares them with a reference."""
    if name == "t":
        return distance(counts, reference) <= Fraction(str(limit)) + _ROUNDED
    if name == "beta":
        most = likeness(counts, reference)
        return most is not None and most <= Fraction(str(limit)) * (1 + _ROUNDED) + _ROUNDED
    raise ValueError(f"no judge of the promise {name!r}")


def kept(
    name: str, parameter: Sequence[float], rows: Iterable[tuple[Person, Value]], reference: Shares | None = None
) -> bool:
    """Whether a set keeps a promise whatever value of each person somebody picks."""
    if reference is not None and name in ("t", "beta"):
        return all(keeps_beside(name, parameter[0], counts, reference) for counts in picks(rows))
    return all(keeps(name, parameter, sorted(counts.values(), reverse=True)) for counts in picks(rows))
