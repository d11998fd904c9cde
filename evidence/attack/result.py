"""What an attack comes to, and how sure that is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

ALL = "quasi-identifiers"
"""What an observer knows who knows all of them."""
PLACED = f"{ALL}, placement"
"""What an attacker knows who reads in which file, by which writer and behind which others each row lies."""

_Z = 1.959963984540054
"""Of a normal distribution, 95 % lie within so many standard deviations."""


@dataclass(frozen=True)
class Attack:
    """What an observer could do with what left, as far as it was tried.

    Attributes
    ----------
    name : of the attack
    knows : what the observer knows beside what left, in words
    success : share of tries that succeed, from 0 to 1
    low, high : bounds of it, of 95 % confidence (``wilson``)
    baseline : the share that succeeds without what left, or of people who are not in it; None where there is none
    promised : the most that k allows to who knows so much; None where it says nothing
    judged : ``replay``: by whose row each is; ``outputs``: by what a run left alone
    note : what it was tried on
    """

    name: str
    knows: str
    success: float
    low: float
    high: float
    baseline: float | None = None
    promised: float | None = None
    judged: str = "replay"
    note: str = ""

    @property
    def above(self) -> bool:
        """Whether it surely succeeds more often than k allows."""
        return self.promised is not None and self.low > self.promised

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self) | {"above": self.above}


@dataclass(frozen=True)
class Tries:
    """How often something was tried, and succeeded; a try may succeed in part, as a guess among n does by 1 / n.

    Attributes
    ----------
    count : of tries
    succeeded : the sum of their successes, each from 0 to 1
    """

    count: int
    succeeded: float

    def __add__(self, other: Tries) -> Tries:
        return Tries(self.count + other.count, self.succeeded + other.succeeded)

    @property
    def share(self) -> float:
        """Of tries that succeed; 0 where nothing was tried."""
        return self.succeeded / self.count if self.count else 0.0


def wilson(tries: Tries) -> tuple[float, float]:
    """The bounds of a share by Wilson's score interval, of 95 % confidence.

    It holds for tries that succeed in part as well: no share between 0 and 1 varies more than a coin of the same mean.
    It takes tries as independent; those of one release are not quite. 0 to 1 where nothing was tried.
    """
    n, p = tries.count, tries.share
    if not n:
        return 0.0, 1.0
    middle = (p + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    width = _Z / (1 + _Z * _Z / n) * sqrt(max(p * (1 - p), 0) / n + _Z * _Z / (4 * n * n))
    return max(0.0, min(p, middle - width)), min(1.0, max(p, middle + width))  # rounding would part them at 0 and 1


def attack(name: str, knows: str, tries: Tries, **further: Any) -> Attack:
    """An attack with the bounds of its tries; ``further`` are attributes of ``Attack``."""
    low, high = wilson(tries)
    return Attack(name, knows, tries.share, low, high, **further)


def excess(among: Tries, control: Tries) -> tuple[float, float, float]:
    """By how much more of those is right that are in the data, of what is left to be known, with bounds.

    ``(among - control) / (1 - control)``, as Anonymeter has it. Its bounds are those of a difference of two shares, of
    95 % confidence (Newcombe's, from Wilson's of each).
    """
    (low, high), (control_low, control_high) = wilson(among), wilson(control)
    difference = among.share - control.share
    left = 1 - control.share or 1.0
    below = ((among.share - low) ** 2 + (control_high - control.share) ** 2) ** 0.5
    above = ((high - among.share) ** 2 + (control.share - control_low) ** 2) ** 0.5
    return difference / left, (difference - below) / left, (difference + above) / left
