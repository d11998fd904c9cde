"""Persons to whom a noised value may belong, for the checkers: plain Python on raw and published values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from math import exp
from typing import Any, TypeAlias

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy
from tests.support.source import IDENTITY, Row

Span: TypeAlias = Sequence[tuple[float, float]]
"""Lowest and highest value of each noised attribute in a class."""


class Linking:
    """Conditions of confidence on a class ((k, epsilon)-anonymity, Section V-C).

    Of each value that is shown of it nobody of the class may be near, or enough subjects.
    """

    def __init__(self, policy: Policy, noise: NoiseWithinRelease, confidence: Confidence) -> None:
        self.confidence = confidence
        self._policy, self._noise = policy, noise
        self._columns = [policy.members.index(attribute.name) for attribute in policy.noised.values()]
        self._identity = policy.members.index(IDENTITY)

    def shows_too_much(
        self, members: Sequence[Row], published: Sequence[Sequence[Any]], withheld: Sequence[Row], *, whole: bool
    ) -> bool:
        """Return whether too few subjects are near a published value of a member, with and without suppressed ones.

        Parameters
        ----------
        members, published : as they came, and (members, columns) as they left
        withheld, whole : rows that may have been of the class, or (``whole``) that were of it
        """
        known, perhaps = ([*members, *withheld], []) if whole else (list(members), withheld)
        shown = [[float(values[place]) for place in self._columns] for values in published]
        return all(
            any(0 < self._near(values, members, self._reach(span)) < self.confidence.k for values in shown)
            or self._shows_too_much(known, shown, perhaps, span)
            for span in self._spans(known, perhaps)
        )

    def may_be_withheld(self, withheld: Sequence[Row], of_class: Sequence[Row], remaining: Sequence[Row]) -> bool:
        """Return whether these members of a class may have been suppressed, some of them because others were.

        ``remaining``: members that were not suppressed
        """
        first = any(self.may_show_too_much(row, of_class) for row in withheld)
        return first and all(self.may_show_too_much(row, of_class, remaining) for row in withheld)

    def may_show_too_much(self, row: Row, of_class: Sequence[Row], remaining: Sequence[Row] | None = None) -> bool:
        """Return whether too few subjects would be near any value that a member of a class could be published with.

        ``remaining``: members that hide this one at the least; None: all of them do
        """
        remaining = of_class if remaining is None else remaining
        (span,) = self._spans(of_class, ())
        reach, scales = self._reach(span), self._scales(span)
        grids = [
            self._grid(a) if scale > 0 else [round(value / self._step(a)) * self._step(a)]
            for a, (scale, value) in enumerate(zip(scales, self._values(row), strict=True))
        ]
        return any(
            self._near(shown, of_class, reach) and self._near(shown, remaining, reach) < self.confidence.k
            for shown in product(*grids)
        )

    def _shows_too_much(
        self, known: Sequence[Row], shown: Sequence[Sequence[float]], perhaps: Sequence[Row], span: Span
    ) -> bool:
        reach = self._reach(span)
        inside = [row for row in perhaps if _lies_in(self._values(row), span)]
        for values in shown:
            if self._near(values, known, reach) and self._near(values, [*known, *inside], reach) < self.confidence.k:
                return True
        return False

    def _spans(self, known: Sequence[Row], perhaps: Sequence[Row]) -> list[Span]:
        """Return the largest span of a class that has some members, and perhaps some others."""
        ends = []
        for a in range(len(self._columns)):
            own, others = ([self._values(row)[a] for row in rows] for rows in (known, perhaps))
            low, high = min(own), max(own)
            lows, highs = {low, *(v for v in others if v < low)}, {high, *(v for v in others if v > high)}
            ends.append(list(product(lows, highs)))
        return list(product(*ends))

    def _values(self, row: Row) -> list[float]:
        return [float(row.published[place]) for place in self._columns]

    def _near(self, shown: Sequence[float], rows: Sequence[Row], reach: Sequence[float]) -> int:
        around = [(value - far, value + far) for value, far in zip(shown, reach, strict=True)]
        near = [row for row in rows if _lies_in(self._values(row), around)]
        named = self._policy.subject is not None
        return len({row.subject if named else row.published[self._identity] for row in near})

    def _reach(self, span: Span) -> list[float]:
        beyond = 1 - self.confidence.c ** (1 / len(self._columns))
        return [(linking_range(scale, beyond) + 1e-6) * self._step(a) for a, scale in enumerate(self._scales(span))]

    def _scales(self, span: Span) -> list[float]:
        """Laplace scales in steps."""
        found, count = [], len(self._columns)
        shares = self._noise.shares or [1 / count] * count
        for a, ((low, high), share) in enumerate(zip(span, shares, strict=True)):
            lowest, highest = tuple(self._policy.noised.values())[a].domain or (0.0, 0.0)
            width = max(high - low, self._noise.least * (highest - lowest))
            if self._noise.scale == "domain":
                width = highest - lowest
            found.append(width / (self._noise.epsilon * share) / self._step(a))
        return found

    def _grid(self, a: int) -> list[float]:
        lowest, highest = tuple(self._policy.noised.values())[a].domain or (0.0, 0.0)
        step = self._step(a)
        return [i * step for i in range(round(lowest / step), round(highest / step) + 1)]

    def _step(self, a: int) -> float:
        return tuple(self._policy.noised.values())[a].step or 1.0


def linking_of(policy: Policy, privacy: Privacy) -> Linking | None:
    """Return the settings of confidence under a policy, or None."""
    noise = privacy.noise_within_release
    if noise is None or noise.confidence is None:
        return None
    return Linking(policy, noise, noise.confidence)


def _lies_in(values: Sequence[float], span: Span) -> bool:
    return all(low <= value <= high for value, (low, high) in zip(values, span, strict=True))


@cache
def linking_range(scale: float, beyond: float) -> int:
    """Return the number of steps that discrete Laplace noise exceeds with no larger probability, by trial."""
    ratio, steps = exp(-1 / scale) if scale > 0 else 0.0, 0
    while 2 * ratio ** (steps + 1) / (1 + ratio) > beyond * (1 + 1e-9):
        steps += 1
    return steps
