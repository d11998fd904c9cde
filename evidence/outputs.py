"""Outputs of a run as tables, from files or from a replay in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from itertools import product
from math import ceil, floor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import EXACT, Numeric
from crenel.anonymity.model.fields import Instant
from crenel.anonymity.model.hierarchy import Hierarchy
from crenel.anonymity.model.policy import Policy
from crenel.operators.output_columns import CLOSING, generalized_names

_COMPUTED = 4
"""Number of steps of float64 by which a computed fraction may miss the end of a domain."""

_SCALES = 18
"""Number of scales of a DECIMAL that differ in float64."""

_ROUNDINGS = (ROUND_HALF_UP, ROUND_HALF_EVEN)
"""Rounding of a number to a DECIMAL by Flink, and by Arrow."""

_DIGITS = Context(prec=500)
"""More digits than any float64 has."""

_UNITS = (10, 100, 1000, 86_400_000)
"""Milliseconds to which sinks round a time down."""


@dataclass(frozen=True)
class RunOutputs:
    """The outputs of one run, as columns; names and meaning as in ``crenel.operators.output_columns``.

    Ends of intervals, losses, and figures of noise are ``float64``. Counts, shards, ids, positions and event times
    (epoch milliseconds) are ``int64``. Kinds, reasons, generalized categories, and sensitive, noised and pass-through
    values are ``string``, as they were written. A sensitive array is JSON. A missing value is null.

    Attributes
    ----------
    policy : of the run
    released : one row per published tuple, its columns in the order of the sink
    audit : one row per release; None where the run kept none, which holds for the following tables as well
    suppressed : one row per suppressed tuple
    rejected : one row per rejected input row
    further : the algorithm's own outputs, and ``forgotten`` and ``summary``, by the name of the sink
    closing : the closing records of a chained audit log, in the columns of ``audit``; None where the run kept none
    read : number of records that were read, counted on their own; None where it is unknown
    files : name and number of rows of each file of ``released``, in the order of its rows; None where it was not read
        from files
    kinds : types that columns of ``released`` and ``audit`` had before, as far as known
    forms : (rows of released,) names of the columns that each row had, joined by line breaks, where a run was restored
        with other columns; None where it is unknown
    """

    policy: Policy
    released: pa.Table
    audit: pa.Table | None = None
    suppressed: pa.Table | None = None
    rejected: pa.Table | None = None
    further: dict[str, pa.Table] = field(default_factory=dict)
    closing: pa.Table | None = None
    read: int | None = None
    files: tuple[tuple[str, int], ...] | None = None
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    forms: Sequence[str | None] | None = None

    @property
    def generalization(self) -> tuple[str, ...]:
        """The columns that the members of a release share, in the order of ``released`` and ``audit``."""
        columns = set(self.released.column_names)
        names = (name for a in self.policy.attributes for name in generalized_names(a.name))
        return tuple(name for name in names if name in columns)


def ends(attribute: Numeric, table: pa.Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (rows,) both ends of a published number, which are equal for a representative.

    A number that is missing in its whole class has the position that it had while classes were formed.
    """
    name = attribute.name
    names = (f"{name}_min", f"{name}_max") if f"{name}_min" in table.column_names else (name, name)
    lower, upper = (table[column].to_numpy().astype(np.float64) for column in names)
    if attribute.missing == "value":
        lower, upper = (np.where(np.isnan(values), attribute.middle, values) for values in (lower, upper))
    return lower, upper


def is_outside(
    numbers: NDArray[Any], domain: tuple[float, float], kind: pa.DataType | None = None
) -> NDArray[np.bool_]:
    """Return (rows,) whether a published number lies outside a domain; a missing one does not.

    An end of the domain that is published is rounded to the type of its column, and may then lie beside the domain. No
    other number may, but for the last digits of a fraction that was computed.

    Parameters
    ----------
    domain : minimum and maximum
    kind : type of the column; None: it is unknown, and an end may be rounded to any type

    Examples
    --------
    >>> numbers = np.array([99.5, 99.9, 100.0])
    >>> is_outside(numbers, (0.0, 99.5), pa.int32()).tolist(), is_outside(numbers, (0.0, 99.5), pa.float64()).tolist()
    ([False, True, False], [False, True, True])
    """
    values = numbers.astype(np.float64)
    outside = np.zeros(len(values), np.bool_)
    for sign, end in zip((-1, 1), domain, strict=True):
        beyond = np.flatnonzero(sign * values > sign * end)
        computed = values[beyond] != np.rint(values[beyond])
        computed &= np.abs(values[beyond] - end) <= _COMPUTED * np.spacing(np.abs(end))
        outside[beyond] = ~computed & ~np.isin(values[beyond], [*_rounded(end, sign, kind)])
    return outside


def _rounded(end: float, outwards: int, kind: pa.DataType | None) -> Iterator[float]:
    """Yield the numbers that an end of a domain may be rounded to; parameters as of ``is_outside``."""
    if kind is None or pa.types.is_integer(kind):
        integer = float(floor(end) if outwards < 0 else ceil(end))
        # Larger numbers move by one step of float64: crenel.operators.bounds.
        yield integer if abs(integer) < EXACT else float(np.nextafter(integer, outwards * np.inf))
    if kind is None or pa.types.is_floating(kind):
        with np.errstate(over="ignore"):
            single = (np.float32 if kind is None else kind.to_pandas_dtype())(end)
        yield float(single)
        yield float(str(single))  # as a sink writes it
    if kind is None or pa.types.is_decimal(kind):
        for scale, rounding in product(range(_SCALES) if kind is None else (kind.scale,), _ROUNDINGS):
            yield float(Decimal(repr(float(end))).quantize(Decimal(1).scaleb(-scale), rounding, _DIGITS))
    if isinstance(end, Instant):
        yield from (end // unit * unit for unit in _UNITS)


def published_nodes(tree: Hierarchy, column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return (rows,) the node of each published label, -1 for a text that labels no node."""
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode(null_encoding="encode")
    nodes: NDArray[np.int64] = tree.find(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return nodes


def values_of(outputs: RunOutputs, name: str) -> tuple[NDArray[np.int64], pa.ChunkedArray]:
    """Return the values of a sensitive column of ``released``, each with its row.

    A row has one value, and of a sensitive array each of its distinct values. An empty array, like a missing one, has
    a missing value alone.

    Returns
    -------
    row : (values,) ascending
    value : (values,) text; a missing one is null, and in an array an empty text
    """
    column = outputs.released[name]
    if name not in dict(outputs.policy.arrays):
        return np.arange(len(column)), column
    rows, texts = list[int](), list[str]()
    for row, text in enumerate(column.to_pylist()):
        distinct = elements(text)
        rows += [row] * len(distinct)
        texts += distinct
    return np.array(rows, np.int64), pa.chunked_array([pa.array(texts, pa.string())])


def elements(array: str | None) -> list[str]:
    """Return the distinct elements of an array in JSON, each as text, a missing one as an empty text.

    An empty array, and a missing one, have a missing element.

    Examples
    --------
    >>> elements('["flu", "gout", "flu"]'), elements("[7]"), elements("[]")
    (['flu', 'gout'], ['7'], [''])
    """
    parsed = (json.loads(array) if array else None) or [None]
    return sorted({"" if element is None else str(element) for element in parsed})


def split_audit(log: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the releases of an audit log and its closing records, which are of no release."""
    closing = pc.fill_null(pc.equal(log["kind"], CLOSING), False)
    return log.filter(pc.invert(closing)), log.filter(closing)
