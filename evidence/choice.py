"""Which of some replayed settings are worth choosing: what meets what is wanted, and what no other beats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, log
from typing import Generic, Protocol, TypeVar

from crenel.evidence.replay import Totals

ALIKE = 0.02
"""Costs within this share of each other are taken for the same: other random choices move them as far."""

_FLOOR = 1e-4


class Promised(Protocol):
    """What a setting promises."""

    @property
    def k(self) -> int: ...
    @property
    def l(self) -> int: ...  # noqa: E743 - the field's own name for it


@dataclass(frozen=True)
class Figures:
    """What a setting costs.

    Attributes
    ----------
    loss : mean InfoLoss of released tuples, 0 to 1; 1 where none was released
    suppressed : share of the tuples let in, 0 to 1
    delay : what 99 of 100 tuples waited for at most: milliseconds of event time, or later tuples where there is none
    middle : the same of every second tuple
    """

    loss: float
    suppressed: float
    delay: float
    middle: float

    @classmethod
    def of(cls, totals: Totals) -> Figures:
        """The figures of a replay; a delay is infinite where no tuple left before the sample ended."""
        waited = totals.sample_delay if totals.event_delay is None else totals.event_delay
        delays = (inf, inf) if waited is None else (float(waited.p99), float(waited.p50))
        return cls(1.0 if totals.mean_loss is None else totals.mean_loss, totals.share_suppressed, *delays)

    @property
    def cost(self) -> float:
        """Loss over all tuples, where a suppressed one loses everything."""
        return 1 - (1 - self.loss) * (1 - self.suppressed)


@dataclass(frozen=True)
class Wanted:
    """Bounds that a setting has to keep; a bound that is infinite, 1, or 1 for k and l, is none.

    Attributes
    ----------
    loss, suppressed, delay : the most of each, as in ``Figures``
    k, l : the least of each
    sooner : whether, of those that keep them, the soonest is looked for, and not that of the least cost
    """

    loss: float = 1.0
    suppressed: float = 1.0
    delay: float = inf
    k: int = 1
    l: int = 1  # noqa: E741 - the field's own name for it
    sooner: bool = False

    def promised(self, setting: Promised) -> bool:
        """Whether a setting promises enough."""
        return setting.k >= self.k and setting.l >= self.l

    def missed(self, figures: Figures) -> dict[str, float]:
        """Which bounds figures do not keep, each with how many times too much they are; empty: they keep all.

        What releases nothing keeps no bound of what may be suppressed.
        """
        bounds = {
            "loss": (figures.loss, self.loss),
            "suppressed": (figures.suppressed, self.suppressed),
            "delay": (figures.delay, self.delay),
        }
        missed = {name: has / max(most, _FLOOR) for name, (has, most) in bounds.items() if has > most}
        return missed if figures.suppressed < 1 else {"suppressed": inf, **missed}

    def price(self, figures: Figures) -> float:
        """What is to be small of those that keep the bounds."""
        return figures.delay if self.sooner else figures.cost


SettingT = TypeVar("SettingT", bound=Promised)


@dataclass(frozen=True)
class Chosen(Generic[SettingT]):
    """A setting that was chosen.

    Attributes
    ----------
    missed : as of ``Wanted.missed``; empty where it keeps what is wanted
    """

    setting: SettingT
    figures: Figures
    missed: Mapping[str, float]


def choose(settings: Mapping[SettingT, Figures], wanted: Wanted) -> Chosen[SettingT] | None:
    """The best setting that keeps what is wanted, or the one that comes nearest; None where none promises enough.

    Of those that are alike the one that comes first is taken, so the order should begin with what is least of a change.
    """
    enough = {setting: figures for setting, figures in settings.items() if wanted.promised(setting)}
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
    """Settings that none with the same k and l beats: as good in loss, suppression and delay, and better in one.

    Those that release nothing are not among them.
    """
    alike: dict[tuple[int, int], list[SettingT]] = {}
    for setting, figures in settings.items():
        if figures.suppressed < 1:
            alike.setdefault((setting.k, setting.l), []).append(setting)
    return {setting for group in alike.values() for setting in _unbeaten(group, settings)}


def _unbeaten(group: Iterable[SettingT], settings: Mapping[SettingT, Figures]) -> Iterator[SettingT]:
    costs = {setting: _costs(settings[setting]) for setting in group}
    for setting, mine in costs.items():
        if not any(_beats(other, mine) for other in costs.values()):
            yield setting


def _costs(figures: Figures) -> tuple[float, float, float]:
    return figures.loss, figures.suppressed, figures.delay


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
