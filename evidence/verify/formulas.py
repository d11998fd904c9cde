"""Privacy models for sensitive values, as their papers define them, computed from counts of persons by value.

``formula`` registers each under the name of its privacy model. Floats carry rounding errors, so a violation by less
than ``ROUNDED`` is no violation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import log
from typing import Any, NamedTuple, TypeVar

from crenel.anonymity.model.reference import Reference

F = TypeVar("F", bound=Callable[..., Any])

ROUNDED = 1e-8


class Formula(NamedTuple):
    """The independent test of a privacy model.

    Attributes
    ----------
    keeps : returns whether a release satisfies the model, None where that cannot be decided. It takes (reference,
        *numbers, persons, counts). ``reference``: the declared ``Reference``; None where there is none. ``numbers``:
        those of the parameter. ``persons``: distinct persons. ``counts``: persons with each value; a person may have
        several
    holds_for_unions : whether the model holds for the union of several releases if it holds for each
    """

    keeps: Callable[..., bool | None]
    holds_for_unions: bool


FORMULAS: dict[str, Formula] = {}
"""The formulas by the name of their privacy model."""


def formula(name: str, *, holds_for_unions: bool = False) -> Callable[[F], F]:
    """Register a function as the test of the privacy model ``name``; parameters as of ``Formula``."""

    def register(keeps: F) -> F:
        FORMULAS[name] = Formula(keeps, holds_for_unions)
        return keeps

    return register


def diversity(persons: int, counts: Sequence[int]) -> int:
    """Return the largest l for which the l - 1 most common values together cover fewer than all persons.

    ``counts``: number of persons who have each value. This is distinct l-diversity where every person has one value
    (Machanavajjhala and others, 2007; ``docs/reference/outputs.md``).
    """
    named = 0
    for largest_l, count in enumerate(sorted(counts, reverse=True), 1):
        named += count
        if named >= persons:
            return largest_l
    return len(counts)


def falling(persons: int, counts: Mapping[str, int]) -> list[int]:
    """Assign each person to one value, the most common values first, and return the counts in descending order."""
    once, left = [], persons
    for count in sorted(counts.values(), reverse=True):
        once.append(min(count, left))
        left -= once[-1]
    return [count for count in once if count]


@formula("alpha", holds_for_unions=True)
def keeps_alpha(_: Reference | None, alpha: float, persons: int, counts: Mapping[str, int]) -> bool:
    """Test that no share of a value exceeds alpha (Wong and others, 2006, Definition 2)."""
    return falling(persons, counts)[0] <= alpha * persons * (1 + ROUNDED)


@formula("entropy_l", holds_for_unions=True)
def keeps_entropy(_: Reference | None, least: float, persons: int, counts: Mapping[str, int]) -> bool:
    """Test entropy l-diversity (Machanavajjhala and others, 2007, Definition 4.1)."""
    shares = [count / persons for count in falling(persons, counts)]
    return -sum(share * log(share) for share in shares) >= log(least) - ROUNDED


@formula("recursive")
def keeps_recursive(_: Reference | None, factor: float, place: float, persons: int, counts: Mapping[str, int]) -> bool:
    """Test recursive (c, l)-diversity (Machanavajjhala and others, 2007, Definition 4.2)."""
    once = falling(persons, counts)
    return once[0] < factor * sum(once[int(place) - 1 :]) * (1 + ROUNDED)


@formula("beta", holds_for_unions=True)
def keeps_beta(reference: Reference, beta: float, persons: int, counts: Mapping[str, int]) -> bool:
    """Test beta-likeness: each share is at most 1 + beta times its reference (Cao and Karras, 2012, Definition 2).

    The largest share of a value over all choices of one value per person is that of the persons who have it.
    """
    usual = dict(zip(reference.values, reference.shares, strict=True))
    return all(count / persons <= (1 + beta) * usual.get(value, 0.0) * (1 + ROUNDED) for value, count in counts.items())


@formula("t", holds_for_unions=True)
def keeps_t(reference: Reference, most: float, persons: int, counts: Mapping[str, int]) -> bool | None:
    """Test t-closeness (Li, Li and Venkatasubramanian, 2007, Section 5) by the reference's distance.

    None where a person has two values: the model would have to hold for either choice.
    """
    if sum(counts.values()) != persons:
        return None
    return distance(counts, reference) <= most + ROUNDED


def distance(counts: Mapping[str, int], reference: Reference) -> float:
    """Return the Earth Mover's Distance to a reference, 0 to 1; a value unknown to it is at distance 1 from all."""
    persons = sum(counts.values())
    usual = dict(zip(reference.values, reference.shares, strict=True))
    strange = sum(count for value, count in counts.items() if value not in usual) / persons
    shares = {value: counts.get(value, 0) / persons for value in usual}
    if reference.distance == "equal":
        return strange + sum(max(shares[value] - share, 0.0) for value, share in usual.items())
    # Mass on unknown values replaces known values in proportion; the remaining mass moves among known values.
    over = {value: shares[value] - (1 - strange) * share for value, share in usual.items()}
    if reference.distance == "ordered" or reference.hierarchy is None:
        return strange + sum(map(abs, list(accumulate(over.values()))[:-1])) / max(len(over) - 1, 1)
    below: dict[tuple[str, ...], float] = {}
    ways = {way[0]: way for way in reference.hierarchy.paths()}
    for value, more in over.items():
        way = ways[value]
        for level in range(len(way) - 1):
            below[way[level:]] = below.get(way[level:], 0.0) + more
    # Each step in a tree of equal depth costs half of 1 / depth: mass moves up one side and down the other.
    depth = max(len(next(iter(ways.values()))) - 1, 1)
    return strange + sum(map(abs, below.values())) / (2 * depth)
