"""Equivalence classes of released rows and audit rows: all rows under one generalization."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crenel.evidence.outputs import RunOutputs

ALONE = ("reused", "generalized")
"""Kinds of singleton releases: their tuple does not count among the members of an equivalence class."""

FOLLOWING = ("again", "widened")
"""Kinds of releases whose ``subjects`` count an anonymity set, of which only some members are published now."""


@dataclass(frozen=True)
class ReleasedClasses:
    """Rows of both tables, numbered by generalization.

    Attributes
    ----------
    released : (rows of released,) number of the generalization, from 0
    audit : (rows of audit,) the same; empty without an audit log
    count : number of generalizations
    kind : (rows of audit,) kind of release
    judged : (rows of audit,) whether the release is of the configuration that is checked
    """

    released: NDArray[np.int64]
    audit: NDArray[np.int64]
    count: int
    kind: NDArray[np.object_]
    judged: NDArray[np.bool_]

    @classmethod
    def of(cls, outputs: RunOutputs) -> ReleasedClasses:
        """Assign numbers to the generalizations of a run's outputs."""
        names = list(outputs.generalization)
        tables = [outputs.released.select(names)]
        if outputs.audit is not None:
            tables.append(outputs.audit.select(names))
        rows = pa.concat_tables(tables).to_pandas()
        number = rows.groupby(names, sort=False, dropna=False).ngroup().to_numpy(np.int64)
        kind = np.array([] if outputs.audit is None else outputs.audit["kind"].to_pylist(), object)
        split = outputs.released.num_rows
        return cls(number[:split], number[split:], int(number.max(initial=-1)) + 1, kind, np.ones(len(kind), np.bool_))

    @property
    def releases(self) -> NDArray[np.int64]:
        """(generalizations,) number of releases under each."""
        return np.bincount(self.audit, minlength=self.count)

    @property
    def rows(self) -> NDArray[np.int64]:
        """(generalizations,) number of released rows under each."""
        return np.bincount(self.released, minlength=self.count)

    @property
    def reveals_members(self) -> NDArray[np.bool_]:
        """(rows of audit,) whether a judged release has exactly the rows under its generalization as members."""
        grouped = self.judged & ~np.isin(self.kind.astype(str), (*ALONE, *FOLLOWING))
        return np.asarray(grouped & (self.releases[self.audit] == 1))


def numbered(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Assign numbers to the values of a text column; a missing value and an empty text count as one value."""
    return np.asarray(pd.factorize(column.to_pandas().fillna(""))[0], np.int64)


def counted(keys: NDArray[np.int64], values: NDArray[np.int64]) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield each key with the number of times that each value occurs with it."""
    if not len(keys):
        return
    width = int(values.max()) + 1
    pairs, counts = np.unique(keys * width + values, return_counts=True)
    starts = np.flatnonzero(np.diff(pairs // width, prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(pairs)], strict=True):
        yield (
            int(pairs[start] // width),
            dict(zip((pairs[start:stop] % width).tolist(), counts[start:stop].tolist(), strict=True)),
        )
