"""Choice among replayed settings: those that meet constraints, and the Pareto front."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, log
from typing import Generic, Protocol, TypeVar

from crenel.evidence.replay import Totals

ALIKE = 0.02
"""Costs within this share of each other count as equal, because other random choices change them as much."""

_FLOOR = 1e-4


class PrivacyParameters(Protocol):
    """The privacy parameters of a setting."""

    @property
    def k(self) -> int: ...
    @property
    def l(self) -> int: ...  # noqa: E743 - the field's own name for it


@dataclass(frozen=True)
class Figures:
    """The cost of a setting.

    Attributes
    ----------
    loss : mean InfoLoss of released tuples, 0 to 1; 1 where none was released
    suppressed : share of admitted tuples, 0 to 1
    delay : p99 of the delay in milliseconds of event time, or in later tuples without event time
    middle : p50 of the delay
    """

    loss: float
    suppressed: float
    delay: float
    middle: float

    @classmethod
    def of(cls, totals: Totals) -> Figures:
        """Return the figures of a replay; a delay is infinite where no tuple was published before the sample ended."""
        waited = totals.sample_delay if totals.event_delay is None else totals.event_delay
        delays = (inf, inf) if waited is None else (float(waited.p99), float(waited.p50))
        return cls(1.0 if totals.mean_loss is None else totals.mean_loss, totals.share_suppressed, *delays)

    @property
    def cost(self) -> float:
        """Loss over all tuples, where a suppressed tuple counts as a loss of 1."""
        return 1 - (1 - self.loss) * (1 - self.suppressed)


@dataclass(frozen=True)
class Wanted:
    """Constraints on a setting; infinity, 1, or 1 for k and l, is no constraint.

    Attributes
    ----------
    loss, suppressed, delay : maximum of each, as in ``Figures``
    k, l : minimum of each
    sooner : whether to minimize the delay among feasible settings, and not the cost
    """

    loss: float = 1.0
    suppressed: float = 1.0
    delay: float = inf
    k: int = 1
    l: int = 1  # noqa: E741 - the field's own name for it
    sooner: bool = False

    def satisfies_privacy(self, setting: PrivacyParameters) -> bool:
        """Return whether a setting has at least the required k and l."""
        return setting.k >= self.k and setting.l >= self.l

    def missed(self, figures: Figures) -> dict[str, float]:
        """Return the violated constraints, each with its ratio of excess; empty: all are met.

        A setting that releases nothing always violates the constraint on suppression.
        """
        bounds = {
            "loss": (figures.loss, self.loss),
            "suppressed": (figures.suppressed, self.suppressed),
            "delay": (figures.delay, self.delay),
        }
        missed = {name: has / max(most, _FLOOR) for name, (has, most) in bounds.items() if has > most}
        return missed if figures.suppressed < 1 else {"suppressed": inf, **missed}

    def price(self, figures: Figures) -> float:
        """Return the objective to minimize among feasible settings."""
        return figures.delay if self.sooner else figures.cost


SettingT = TypeVar("SettingT", bound=PrivacyParameters)


@dataclass(frozen=True)
class Chosen(Generic[SettingT]):
    """A chosen setting.

    Attributes
    ----------
    missed : as of ``Wanted.missed``; empty where it meets the constraints
    """

    setting: SettingT
    figures: Figures
    missed: Mapping[str, float]


def choose(settings: Mapping[SettingT, Figures], wanted: Wanted) -> Chosen[SettingT] | None:
    """Return the best feasible setting, or the nearest one; None where none has the required k and l.

    Ties go to the first setting, so the order should begin with the smallest changes.
    """
    enough = {setting: figures for setting, figures in settings.items() if wanted.satisfies_privacy(setting)}
    if not enough:
        return None
    kept = {setting: figures for setting, figures in enough.items() if not wanted.missed(figures)}
    if kept:
        least = min(map(wanted.price, kept.values()))
        alike = {s: f for s, f in kept.items() if wanted.price(f) <= least * (1 + ALIKE)}
        if wanted.sooner:
            cheapest = min(figures.cost for figures in alike.values())
            alike = {s: f for s, f in alike.items() if f.cost <= cheapest * (1 + ALIKE)}
        setting = next(iter(alike))
        return Chosen(setting, kept[setting], {})
    setting = min(enough, key=lambda s: _far(wanted.missed(enough[s])))
    return Chosen(setting, enough[setting], wanted.missed(enough[setting]))


def _far(missed: Mapping[str, float]) -> float:
    return sum(log(times) for times in missed.values())


def front(settings: Mapping[SettingT, Figures]) -> set[SettingT]:
    """Return the Pareto front of loss, suppression and delay, among settings of equal k and l.

    Settings that release nothing are excluded.
    """
    alike: dict[tuple[int, int], list[SettingT]] = {}
    for setting, figures in settings.items():
        if figures.suppressed < 1:
            alike.setdefault((setting.k, setting.l), []).append(setting)
    return {setting for group in alike.values() for setting in _unbeaten(group, settings)}


def _unbeaten(group: Iterable[SettingT], settings: Mapping[SettingT, Figures]) -> Iterator[SettingT]:
    costs = {setting: _costs(settings[setting]) for setting in group}
    for setting, cost in costs.items():
        if not any(_beats(other, cost) for other in costs.values()):
            yield setting


def _costs(figures: Figures) -> tuple[float, float, float]:
    return figures.loss, figures.suppressed, figures.delay


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
