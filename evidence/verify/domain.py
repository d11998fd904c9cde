"""Check that published quasi-identifiers are values that the policy allows."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Numeric, QuasiIdentifier
from crenel.evidence.outputs import Outputs
from crenel.evidence.verify.accounts import rows_text
from crenel.evidence.verify.verdict import Check, Finding, judged

Strange: TypeAlias = Iterator[tuple[str, str, NDArray[np.bool_]]]
"""A column, its violation in words, and (rows,) the rows in violation."""


def domain(outputs: Outputs) -> Check:
    """Check that each interval lies in its domain, and that each category is a label of its hierarchy.

    A value outside is a raw value, or a value that was altered after publication.
    """
    findings: list[Finding] = []
    for column, what, wrong in _strange(outputs, outputs.released):
        findings.append(Finding(f"column {column!r} of released {what} in {rows_text(np.flatnonzero(wrong))}"))
    if outputs.audit is not None:
        for column, what, wrong in _strange(outputs, outputs.audit):
            for row in outputs.audit.filter(pa.array(wrong)).select(["shard", "release_id"]).to_pylist():
                findings.append(Finding(f"column {column!r} of audit {what}", row["shard"], row["release_id"]))
    names = ", ".join(outputs.generalization)
    return judged("domain", f"{outputs.released.num_rows:,} released rows, in {names}", findings)


def _strange(outputs: Outputs, table: pa.Table) -> Strange:
    for attribute in outputs.policy.quasi_identifiers:
        names = [name for name in outputs.generalization if name in _columns(attribute)]
        for column, what, wrong in _of_attribute(attribute, table.select(names).to_pandas()):
            if wrong.any():
                yield column, what, wrong


def _columns(attribute: QuasiIdentifier) -> tuple[str, ...]:
    name = attribute.name
    return (f"{name}_min", f"{name}_max", name) if isinstance(attribute, Numeric) else (name,)


def _of_attribute(attribute: QuasiIdentifier, values: pd.DataFrame) -> Strange:
    for name, column in values.items():
        if not isinstance(attribute, Numeric):
            if attribute.publish == "set":
                continue  # the check of sets reads their values
            tree = attribute.hierarchy
            labels = tree.labels[: tree.leaves] if attribute.has_representative else tree.labels
            yield attribute.name, "holds no label of its hierarchy", ~column.isin(list(labels)).to_numpy(np.bool_)
            continue
        yield str(name), "holds no number", ~np.isfinite(column.to_numpy(np.float64))
        if attribute.domain is not None:
            least, most = floor(attribute.domain[0]), ceil(attribute.domain[1])  # rounding widens integer ends
            yield str(name), "lies outside its domain", ((column < least) | (column > most)).to_numpy(np.bool_)
    if isinstance(attribute, Numeric) and values.shape[1] > 1:
        low, high = (values[name] for name in values.columns)
        yield str(values.columns[1]), "lies below the column before it", (low > high).to_numpy(np.bool_)
