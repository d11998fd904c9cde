"""Reference distribution of a sensitive column, with which t-closeness and beta-likeness compare a release."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import PlainValidator, ValidationInfo

from crenel.anonymity.model.errors import read_text
from crenel.anonymity.model.fields import loaded, require_path
from crenel.anonymity.model.hierarchy import Hierarchy, HierarchyError

Distance: TypeAlias = Literal["equal", "ordered", "hierarchical"]

HEADERS = (("value", "share"), ("value", "count"))
"""Valid first lines of a file; shares and counts alike are divided by their sum."""

_MOST = 10**18

_FIRST = "must be 'value,share' or 'value,count'"


class DistributionError(ValueError):
    """A file without a valid distribution; the message names file and line, and never a value."""


@dataclass(frozen=True)
class Reference:
    """Reference distribution of a sensitive column; without values, that of the shard's stream so far.

    Attributes
    ----------
    values : distinct values as text
    shares : (values,) share of all persons: at least 0, with sum 1
    codes : (values,) distinct 64-bit codes as in ``Block.sensitive``; empty until the type of the column is known
    distance : ground distance of two values (Li, Li and others, ICDE 2007, Section 5): equal for all pairs, by order in
        ``values``, or by ``hierarchy``
    hierarchy : has levels, and each value as a leaf; only for a hierarchical distance
    source : path of the file that it was read from; None: it was read from none
    """

    values: tuple[str, ...]
    shares: tuple[float, ...]
    codes: tuple[int, ...] = ()
    distance: Distance = "equal"
    hierarchy: Hierarchy | None = None
    source: str | None = field(default=None, compare=False, repr=False)

    @property
    def of_stream(self) -> bool:
        """Whether the reference is the distribution of all tuples that the shard has admitted so far."""
        return not self.values

    def problem(self) -> str | None:
        """Return the problem of the hierarchy, or None."""
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
    """Read a UTF-8 CSV file of values and their frequencies, whose first line is one of ``HEADERS``.

    Raises
    ------
    DistributionError
        The file is unreadable, or its first line is invalid. It has no value, or a value twice. A line is not a value
        and a number from 0 to 10^18. All numbers are 0.
    """
    path = Path(path)
    text = read_text(path, DistributionError)
    # Strict: otherwise an unclosed quote would swallow the lines after it.
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


def _reference_of(value: object, info: ValidationInfo) -> object:
    if isinstance(value, Reference):
        return value
    return loaded(require_path(value), info, load)


if TYPE_CHECKING:
    ReferenceField: TypeAlias = Any
else:
    ReferenceField = Annotated[Any, PlainValidator(_reference_of)]
    """Path of a file with a reference distribution, or the ``Reference`` that it becomes."""
