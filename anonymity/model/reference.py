"""How common each value of a sensitive column is elsewhere: what t-closeness compares a release with."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Literal, TypeAlias

from crenel.anonymity.model.files import read_text
from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError

Distance: TypeAlias = Literal["equal", "ordered", "hierarchical"]

HEADERS = (("value", "share"), ("value", "count"))
"""The first line of a file; shares and counts alike are divided by their sum."""

_MOST = 10**18

_FIRST = "must be 'value,share' or 'value,count'"


class DistributionError(ValueError):
    """A file that holds no distribution; the message names file and line, and never a value."""


@dataclass(frozen=True)
class Reference:
    """The distribution of a sensitive column that releases are compared with; of no values: that of the shard's stream.

    Attributes
    ----------
    values : as text, each once
    shares : (values,) of all persons: 0 or more, together 1
    codes : (values,) 64-bit codes as in ``Block.sensitive``, each once; empty until the type of the column is known
    distance : how far values are from each other (Li, Li and others, ICDE 2007, Section 5): all equally far, by their
        places here, or by ``hierarchy``
    hierarchy : has levels, and each value as a leaf; of a hierarchical distance only
    """

    values: tuple[str, ...]
    shares: tuple[float, ...]
    codes: tuple[int, ...] = ()
    distance: Distance = "equal"
    hierarchy: Hierarchy | None = None

    @property
    def of_stream(self) -> bool:
        """Whether it is the share of all tuples that the shard has let in so far."""
        return not self.values

    def problem(self) -> str | None:
        """What is wrong with the hierarchy, if anything."""
        if self.hierarchy is None:
            return None
        try:
            self.hierarchy.levels()
        except HierarchyError as error:
            return str(error)
        leaves = set(self.hierarchy.labels[: self.hierarchy.leaves])
        for number, value in enumerate(self.values, 1):
            if value not in leaves:
                return f"value {number} of the reference is none of its leaves; add it to the file"
        return None


OF_STREAM = Reference((), ())
"""The distribution of the shard's stream so far."""


def load(path: Path | str) -> Reference:
    """Read a file of values and how common each is: CSV in UTF-8, of which the first line is one of ``HEADERS``.

    Raises
    ------
    DistributionError
        It cannot be read, has another first line, no value, a line that is not a value and a number from 0 to 10^18,
        a value twice, or numbers that are 0 together.
    """
    path = Path(path)
    text = read_text(path, DistributionError)
    # Strict: else a quote that is never closed would swallow the lines after it.
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return _read([(rows.line_num, row) for row in rows if row])
    except DistributionError as error:
        raise DistributionError(f"{path}: {error}") from None
    except csv.Error as error:
        raise DistributionError(f"{path}: line {rows.line_num}: not CSV: {error}") from None


def _read(rows: Iterable[tuple[int, Sequence[str]]]) -> Reference:
    lines = iter(rows)
    number, header = next(lines, (1, ()))
    if tuple(header) not in HEADERS:
        raise DistributionError(f"line {number}: {_FIRST}")
    measure, first, amounts = header[1], dict[str, int](), list[float]()
    for number, row in lines:
        if len(row) != 2:
            raise DistributionError(f"line {number}: must hold a value and its {measure}, separated by a comma")
        amount = _amount(row[1])
        if amount is None:
            raise DistributionError(f"line {number}: its {measure} must be a number from 0 to 10^18")
        if row[0] in first:
            raise DistributionError(f"line {number}: has the value of line {first[row[0]]} again; give each once")
        first[row[0]] = number
        amounts.append(amount)
    total = fsum(amounts)
    if total == 0:
        raise DistributionError(f"holds no value with a {measure} above 0; give each value a line")
    return Reference(tuple(first), tuple(amount / total for amount in amounts))


def _amount(text: str) -> float | None:
    try:
        amount = float("_" if "_" in text else text)
    except ValueError:
        return None
    return amount if 0 <= amount <= _MOST else None
