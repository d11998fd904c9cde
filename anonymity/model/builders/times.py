"""Hierarchies of times of day, and of days of the week."""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import ROOT, Builder, BuilderError, Finder
from crenel.anonymity.model.fields import Items, about, setting

TimePeriod: TypeAlias = Literal["minute", "hour", "part"]

WeekPeriod: TypeAlias = Literal["day", "part"]

MINUTES: dict[TimePeriod, int] = {"minute": 1, "hour": 60, "part": 360}
"""Minutes of each period; each lies inside one of the next kind."""

_TIME = r"^(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@setting
class Times(Builder):
    """A hierarchy of times of day, from text such as ``08:30`` or ``08:30:15``, to labels such as ``08:00-08:59``.

    Attributes
    ----------
    levels : some of minute, hour and part, in this order; a part is a quarter of the day
    """

    levels: Annotated[Items[TimePeriod], about("some of minute, hour, part (a quarter of the day), in this order")] = (
        "minute",
        "hour",
        "part",
    )

    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        widths = [MINUTES[level] for level in self.levels]
        if not widths or any(wide <= narrow for narrow, wide in pairwise(widths)):
            raise BuilderError("levels", f"must nest: some of {', '.join(MINUTES)}, in this order")

    def paths(self) -> list[tuple[str, ...]]:
        widths = [MINUTES[level] for level in self.levels]
        return [
            (*(_period(minute // width * width, width) for width in widths), ROOT)
            for minute in range(0, 24 * 60, widths[0])
        ]

    def finder(self) -> Finder:
        width = MINUTES[self.levels[0]]

        def find(texts: NDArray[Any]) -> NDArray[np.intp]:
            column = pa.array(texts, pa.string(), from_pandas=True)
            valid = pc.match_substring_regex(column, _TIME).fill_null(False)
            known = column.filter(valid)
            hour, minute = (pc.utf8_slice_codeunits(known, at, at + 2).cast(pa.int64()).to_numpy() for at in (0, 3))
            found = np.full(len(texts), -1, np.intp)
            found[valid.to_numpy(zero_copy_only=False)] = (60 * hour + minute) // width
            return found

        return find


@setting
class Weekdays(Builder):
    """A hierarchy of the days of the week of any date: ``Monday`` and ``weekday``, ``Sunday`` and ``weekend``.

    Attributes
    ----------
    levels : day, part, or both in this order; a part is a weekday or the weekend
    """

    levels: Annotated[Items[WeekPeriod], about("day, part (weekday or weekend), or both in this order")] = (
        "day",
        "part",
    )

    kind: ClassVar[Literal["date"]] = "date"

    def __post_init__(self) -> None:
        if self.levels not in (("day",), ("part",), ("day", "part")):
            raise BuilderError("levels", "must nest: some of day, part, in this order")

    def paths(self) -> list[tuple[str, ...]]:
        labels = [{"day": day, "part": "weekday" if number < 5 else "weekend"} for number, day in enumerate(_DAYS)]
        return list(dict.fromkeys((*(label[level] for level in self.levels), ROOT) for label in labels))

    def finder(self) -> Finder:
        leaf = np.array([*(range(7) if self.levels[0] == "day" else (0,) * 5 + (1,) * 2), -1])

        def find(texts: NDArray[Any]) -> NDArray[np.intp]:
            column = pa.array(texts, pa.string(), from_pandas=True)
            valid = pc.match_substring_regex(column, _DAY).fill_null(False).to_numpy(zero_copy_only=False)
            found = np.full(len(texts), -1, np.intp)
            found[valid] = leaf[[_weekday(text) for text in texts[valid]]]
            return found

        return find


def _period(start: int, minutes: int) -> str:
    end = start + minutes - 1
    first = f"{start // 60:02}:{start % 60:02}"
    return first if minutes == 1 else f"{first}-{end // 60:02}:{end % 60:02}"


def _weekday(day: str) -> int:
    """Return the day of the week from 0, and -1 for a day that does not exist."""
    try:
        return date.fromisoformat(day).weekday()
    except ValueError:
        return -1
