"""Figures of the columns of a table, without values of its records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.operators.encode.columns import normalized, without_nan

SMALL = 10
"""Number of rows below which a group of rows with equal values counts as small: the k that proposals begin with."""

_ROWS_PER_PERSON = 50
"""Maximum mean number of rows per value of a candidate subject; a category has more."""

_LEAST_PERSONS = 10
"""Minimum number of distinct values of a candidate subject."""

Form: TypeAlias = Literal["whole", "number", "digits", "boolean", "date", "timestamp", "ip", "text", "other"]

_FORMS: tuple[tuple[Form, re.Pattern[str]], ...] = (
    ("ip", re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}")),
    ("date", re.compile(r"\d{4}-\d\d-\d\d")),
    ("timestamp", re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")),
    ("whole", re.compile(r"\s*-?\d+\s*")),
    ("number", re.compile(r"\s*-?\d+\.?\d*(?:[eE][+-]?\d+)?\s*")),
)
"""Forms of text, the first that all values match; whole numbers of one length are digits."""


@dataclass(frozen=True)
class ColumnProfile:
    """Figures of one column; shares are from 0 to 1, and missing values count as one value of their own.

    Attributes
    ----------
    type : SQL type
    form : form of the values, which may be narrower than the type
    length : number of characters of each value, for ``digits``; of the longest, for whole numbers from 0 on; else None
    density : share of the numbers from the lowest to the highest value that occur, for whole numbers; else 0
    distinct : number of distinct values, without missing ones
    missing : share of rows without a value
    unique_values : share of distinct values that occur once
    unique : share of rows with a value that no other row has
    small : share of rows in groups of fewer than ``Profile.k`` rows with an equal value
    may_be_subject : whether the values repeat, and are as many as those of persons would be
    spellings : number of distinct texts that equal another in Unicode's NFC without outer spaces
    constant : by other candidate subject, the share of its values with several rows that have one value of this
        column in all of them; None where no value has several rows
    """

    name: str
    type: str
    form: Form
    length: int | None = None
    density: float = 0
    distinct: int = 0
    missing: float = 0
    unique_values: float = 0
    unique: float = 0
    small: float = 0
    may_be_subject: bool = False
    spellings: int = 0
    constant: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class PairProfile:
    """Shares of rows that two columns single out together, as in ``ColumnProfile``."""

    columns: tuple[str, str]
    unique: float
    small: float


@dataclass(frozen=True)
class Profile:
    """Figures of the columns of a table and of all pairs of columns; no value of a record.

    Attributes
    ----------
    rows : number of rows; 0 where only names and types are known
    k : size below which a group counts as small
    columns : in their order
    pairs : in descending order of ``unique``, then ``small``
    """

    rows: int
    k: int
    columns: tuple[ColumnProfile, ...]
    pairs: tuple[PairProfile, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as nested dictionaries."""
        return asdict(self)

    def __str__(self) -> str:
        header = ["column", "type", "form", "distinct", "missing", "occur once", "unique rows", f"below {self.k}"]
        rows = [
            [column.name, column.type, column.form, f"{column.distinct:,}"]
            + [share(part) for part in (column.missing, column.unique_values, column.unique, column.small)]
            for column in self.columns
        ]
        lines = [f"{self.rows:,} rows", *_aligned([header, *rows], 3)]
        if pairs := [pair for pair in self.pairs if pair.small][:10]:
            header = ["pair of columns", "unique rows", f"below {self.k}"]
            cells = [[" + ".join(pair.columns), share(pair.unique), share(pair.small)] for pair in pairs]
            lines += ["", *_aligned([header, *cells], 1)]
        lines += [f"Warning: {column.name}: {spellings_warning(column)}" for column in self.columns if column.spellings]
        return "\n".join(lines)


def spellings_warning(column: ColumnProfile) -> str:
    """Return a warning about a column with several spellings of one value."""
    return (
        f"{column.spellings:,} of {column.distinct:,} values differ from another only in outer spaces or in Unicode's "
        "composition. If the column identifies persons, each of them counts as one more person, unless "
        "policy.subject_normalization: [nfc, trim] is set"
    )


def share(ratio: float) -> str:
    """Return a share as a percentage; a small one is not rounded to none, and a large one not to all."""
    return "<0.1%" if 0 < ratio < 0.001 else ">99.9%" if 0.999 < ratio < 1 else f"{ratio:.1%}"


def measure(table: pa.Table, types: Mapping[str, str], k: int = SMALL) -> Profile:
    """Return the profile of a table without dictionary encoding.

    Parameters
    ----------
    types : SQL type by column
    k : size below which a group of rows counts as small, 1 or more
    """
    encoded = {name: codes_of(without_nan(table.column(name).combine_chunks())) for name in table.column_names}
    codes = {name: numbers for name, (numbers, _) in encoded.items()}
    columns = [_column(name, types[name], values, codes[name], k) for name, (_, values) in encoded.items()]
    subjects = [column.name for column in columns if column.may_be_subject]
    columns = [
        replace(
            column,
            constant={name: _constant(codes[name], codes[column.name]) for name in subjects if name != column.name},
        )
        for column in columns
    ]
    pairs = [_pair((one, two), codes[one], codes[two], k) for one, two in combinations(codes, 2)]
    return Profile(
        rows=table.num_rows,
        k=k,
        columns=tuple(columns),
        pairs=tuple(sorted(pairs, key=lambda pair: (-pair.unique, -pair.small))),
    )


def form_of_type(sql: str) -> Form:
    """Return the form of the values of an SQL type."""
    name = sql.partition("(")[0].partition(" ")[0].upper()
    forms: dict[str, Form] = {
        **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"), "whole"),
        **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL", "DEC", "NUMERIC"), "number"),
        **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), "timestamp"),
        **dict.fromkeys(("STRING", "VARCHAR", "CHAR"), "text"),
        **{"BOOLEAN": "boolean", "DATE": "date"},
    }
    return forms.get(name, "other")


def codes_of(column: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return (rows,) number of the distinct value of each row, -1 where it is missing, and the distinct values."""
    try:
        dictionary = column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # a nested type
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        dictionary = pa.array(texts, pa.string()).dictionary_encode()
    return dictionary.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), dictionary.dictionary


def _column(name: str, sql: str, values: pa.Array, codes: NDArray[np.int64], k: int) -> ColumnProfile:
    sizes = np.bincount(codes + 1, minlength=len(values) + 1)
    unique, small = _singled_out(sizes, k)
    form, length = _form(sql, values)
    may_be_persons = _LEAST_PERSONS <= len(values) and len(codes) <= _ROWS_PER_PERSON * len(values)
    return ColumnProfile(
        name=name,
        type=sql,
        form=form,
        length=length,
        density=_density(values) if form in ("whole", "digits") else 0,
        distinct=len(values),
        missing=int(sizes[0]) / max(len(codes), 1),
        unique_values=int(np.sum(sizes[1:] == 1)) / max(len(values), 1),
        unique=unique,
        small=small,
        spellings=0 if form != "text" else len(values) - len(normalized(values, ("nfc", "trim")).unique()),
        may_be_subject=form in ("text", "whole", "digits") and may_be_persons and unique < 1,
    )


def _form(sql: str, values: pa.Array) -> tuple[Form, int | None]:
    form = form_of_type(sql)
    if form == "whole" and len(values):
        return form, _digits(values)
    if form != "text" or not len(values):
        return form, None
    texts: list[str] = values.to_pylist()
    form = next((form for form, pattern in _FORMS if all(map(pattern.fullmatch, texts))), form)
    lengths = set(map(len, texts))
    if form == "whole" and len(lengths) == 1 and all(map(str.isdigit, texts)):
        return "digits", lengths.pop()
    return form, _digits(values) if form == "whole" else None


def _digits(values: pa.Array) -> int | None:
    """Return the number of digits of the highest of some whole numbers; None where one is below 0."""
    numbers = [int(value) for value in values.to_pylist()]
    return len(str(max(numbers))) if min(numbers) >= 0 else None


def _density(values: pa.Array) -> float:
    numbers = {int(value) for value in values.to_pylist()}
    return len(numbers) / (max(numbers) - min(numbers) + 1) if numbers else 0


def _pair(names: tuple[str, str], one: NDArray[np.int64], two: NDArray[np.int64], k: int) -> PairProfile:
    return PairProfile(names, *_singled_out(np.unique(_joint(one, two), return_counts=True)[1], k))


def _joint(one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (rows,) number of the values of each row in two columns."""
    return (one + 1) * (int(two.max(initial=-1)) + 2) + two + 1


def _singled_out(sizes: NDArray[np.int64], k: int) -> tuple[float, float]:
    """Return the share of rows in groups of one row, and in groups of fewer than k; ``sizes``: (groups,)."""
    rows = max(int(sizes.sum()), 1)
    return int(np.sum(sizes == 1)) / rows, int(sizes[sizes < k].sum()) / rows


def _constant(subjects: NDArray[np.int64], codes: NDArray[np.int64]) -> float | None:
    """Return the share of subjects with several rows that have one value in all of them."""
    several = np.bincount(subjects + 1)[1:] > 1
    pairs = np.unique(_joint(subjects, codes))
    values = np.bincount(pairs // (int(codes.max(initial=-1)) + 2), minlength=len(several) + 1)[1:]
    return float(np.mean(values[several] == 1)) if several.any() else None


def _aligned(rows: Sequence[Sequence[str]], texts: int) -> list[str]:
    """Return the lines of a table: ``texts`` columns of text, then columns of figures."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if i < texts else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
