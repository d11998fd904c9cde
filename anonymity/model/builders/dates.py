"""Hierarchies of days by month, quarter, year and decade, or by ISO week and its year."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated, ClassVar, Literal, TypeAlias

from crenel.anonymity.model.builders.builder import MOST_LEAVES, ROOT, Builder, BuilderError, Finder, table_finder
from crenel.anonymity.model.fields import Day, Items, about, setting

Period: TypeAlias = Literal["day", "month", "quarter", "year", "decade", "week", "week_year"]

PERIODS: tuple[Period, ...] = ("day", "month", "quarter", "year", "decade")
"""Periods of the calendar; each lies inside one of the next kind."""

WEEKS: tuple[Period, ...] = ("day", "week", "week_year")
"""Periods of ISO 8601 weeks; a week lies inside one week year, but not inside one month, quarter or year."""


@setting
class Dates(Builder):
    """A hierarchy of days by calendar periods: ``2024-02-29``, ``2024-02``, ``2024-Q1``, ``2024``, ``2020s``.

    The labels of ISO 8601 weeks are such as ``2024-W09``, and those of their years ``2024-W*``. 2024-12-30 is in
    ``2025-W01``.

    Attributes
    ----------
    domain : first and last day, both included, 2^20 days at most
    levels : some of day, month, quarter, year and decade, in this order; or some of day, week and week_year
    """

    domain: Annotated[tuple[Day, Day], about("[first, last], two days such as [1920-01-01, 2026-12-31]")]
    levels: Annotated[
        Items[Period],
        about("some of day, month, quarter, year, decade, in this order, or some of day, week, week_year"),
    ] = PERIODS

    kind: ClassVar[Literal["date"]] = "date"

    def __post_init__(self) -> None:
        first, last = self.domain
        if first > last:
            raise BuilderError("domain", "must be two days, the earlier one first")
        if (days := (last - first).days + 1) > MOST_LEAVES:
            raise BuilderError("domain", f"holds {days} days, and 2^20 are known at most; narrow it")
        if not self.levels or not any(_nest(self.levels, periods) for periods in (PERIODS, WEEKS)):
            raise BuilderError(
                "levels",
                f"must nest: some of {', '.join(PERIODS)}, in this order; or some of {', '.join(WEEKS)}",
            )

    def paths(self) -> list[tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for day in self._days():
            leaf = _label(day, self.levels[0])
            if leaf not in found:
                found[leaf] = (leaf, *(_label(day, level) for level in self.levels[1:]), ROOT)
        return list(found.values())

    def finder(self) -> Finder:
        numbers: dict[str, int] = {}
        return table_finder(
            {day: numbers.setdefault(_label(day, self.levels[0]), len(numbers)) for day in self._days()}
        )

    def _days(self) -> list[str]:
        first, last = self.domain
        return [date.fromordinal(number).isoformat() for number in range(first.toordinal(), last.toordinal() + 1)]


def _nest(levels: Sequence[Period], periods: tuple[Period, ...]) -> bool:
    return [period for period in periods if period in levels] == list(levels)


def _label(day: str, period: Period) -> str:
    """Return the label of the period that contains a day, given as ISO 8601."""
    match period:
        case "day":
            return day
        case "month":
            return day[:7]
        case "quarter":
            return f"{day[:4]}-Q{(int(day[5:7]) + 2) // 3}"
        case "year":
            return day[:4]
        case "decade":
            return f"{day[:3]}0s"
        case "week":
            year, week, _ = date.fromisoformat(day).isocalendar()
            return f"{year:04}-W{week:02}"
        case "week_year":
            return f"{date.fromisoformat(day).isocalendar().year:04}-W*"
