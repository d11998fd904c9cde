"""The promises beside k and l, judged anew in plain Python, exactly, from persons and their published values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from math import prod

Person = Hashable
Value = Hashable


def picks(rows: Iterable[tuple[Person, Value]]) -> Iterator[list[int]]:
    """Counts of persons by value, largest first, of ways to pick one of each person's values.

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
        first = Counter(next(value for value in order if value in held) for held in of.values())
        yield sorted(first.values(), reverse=True)


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


def kept(name: str, parameter: Sequence[float], rows: Iterable[tuple[Person, Value]]) -> bool:
    """Whether a set keeps a promise whatever value of each person somebody picks."""
    return all(keeps(name, parameter, counts) for counts in picks(rows))
