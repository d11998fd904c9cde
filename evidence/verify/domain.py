"""Checks that published quasi-identifiers are values that the policy allows, and have the loss that is stated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import MAYBE, NO_NUMBER, Numeric, Presence, QuasiIdentifier
from crenel.evidence.losses import loss_of
from crenel.evidence.outputs import RunOutputs, is_outside, published_nodes
from crenel.evidence.verify.accounts import rows_text
from crenel.evidence.verify.spans import Span
from crenel.evidence.verify.verdict import Check, Finding, at_releases, judged, unseen

_FLOAT32 = 1e-6
"""Largest error of a loss whose intervals have ends of type FLOAT."""

Strange: TypeAlias = Iterator[tuple[str, str, NDArray[np.bool_]]]
"""A column, its violation in words, and (rows,) the rows in violation."""


def domain(span: Span) -> Check:
    """Check that each interval lies in its domain, and that each category is a label of its hierarchy.

    A generalized sensitive value is a label of the declared level.
    A value outside is a raw value, or a value that was altered after publication. A number has no interval exactly
    where ``NAME_missing`` says that it is missing.
    """
    findings: list[Finding] = []
    outputs, released = span.outputs, span.outputs.released
    for column, what, wrong in _strange(outputs, released, span.rows):
        findings.append(Finding(f"column {column!r} of released {what} in {rows_text(np.flatnonzero(wrong))}"))
    if outputs.audit is not None:
        for column, what, wrong in _strange(outputs, outputs.audit, span.classes.judged):
            findings += at_releases(outputs.audit, wrong, f"column {column!r} of audit {what}")
    for attribute in outputs.policy.generalized.values():
        values = released[attribute.name].to_pandas()
        wrong = ~values.isin(list(attribute.labels)).to_numpy(np.bool_) & span.rows
        if attribute.name in span.partial:
            wrong &= values.notna().to_numpy(np.bool_)
        if wrong.any():
            what = f"holds no label of its hierarchy at level {attribute.level}"
            findings.append(
                Finding(f"column {attribute.name!r} of released {what} in {rows_text(np.flatnonzero(wrong))}")
            )
    names = ", ".join((*outputs.generalization, *outputs.policy.generalized))
    return judged("domain", f"{span.rows.sum():,} released rows, in {names}", findings)


def losses(span: Span) -> Check:
    """Check that ``published_loss`` is the InfoLoss of the published intervals and labels, for numbers that may miss.

    A changed ``NAME_missing`` changes that loss: a class of both kinds loses all of this attribute.
    """
    table, policy = span.outputs.audit, span.outputs.policy
    if table is None or not policy.presence:
        return unseen("loss", "no output shows it")
    if any(a.has_representative or (isinstance(a, Numeric) and a.domain is None) for a in policy.attributes):
        return unseen("loss", "a representative, or a number without a domain, does not show what it lost")
    loss, rounded = np.zeros(table.num_rows), _FLOAT32
    for attribute in policy.attributes:
        loss += loss_of(attribute, table)
        rounded += _rounded(attribute) if isinstance(attribute, Numeric) else 0.0
    stated = table["published_loss"].to_numpy().astype(np.float64)
    wrong = ~(np.abs(loss / len(policy.attributes) - stated) <= rounded) & span.classes.judged
    findings = at_releases(table, wrong, "states a published_loss that its values do not have")
    return judged(
        "loss", f"published_loss of {span.classes.judged.sum():,} releases, by their intervals and labels", findings
    )


def _rounded(attribute: Numeric) -> float:
    """Return by how much integer ends may exceed the interval, as a share of the domain."""
    lowest, highest = attribute.domain or (0.0, 0.0)
    is_whole = float(lowest).is_integer() and float(highest).is_integer()
    return 0.0 if is_whole or highest == lowest else min(2 / (highest - lowest), 1.0)


def _strange(outputs: RunOutputs, table: pa.Table, judged_rows: NDArray[np.bool_]) -> Strange:
    for attribute in outputs.policy.attributes:
        names = [name for name in outputs.generalization if name in _columns(attribute)]
        absent = few = np.zeros(table.num_rows, np.bool_)
        if isinstance(attribute, Numeric) and attribute.missing == "value":
            flag = table[Presence.of(attribute).name].to_pandas()
            absent = flag.eq(NO_NUMBER).to_numpy(np.bool_)
            if attribute.has_representative:  # a class in which few persons have the number has none
                few = flag.eq(MAYBE).to_numpy(np.bool_)
        values = table.select(names).to_pandas()
        for column, what, wrong in _of_attribute(attribute, values, absent, few, outputs.kinds):
            if (wrong & judged_rows).any():
                yield column, what, wrong & judged_rows


def _columns(attribute: QuasiIdentifier) -> tuple[str, ...]:
    name = attribute.name
    return (f"{name}_min", f"{name}_max", name) if isinstance(attribute, Numeric) else (name,)


def _of_attribute(
    attribute: QuasiIdentifier,
    values: pd.DataFrame,
    absent: NDArray[np.bool_],
    few: NDArray[np.bool_],
    kinds: Mapping[str, pa.DataType],
) -> Strange:
    """Yield the violations.

    Parameters
    ----------
    absent, few : (rows,) whether the number must, and whether it may be null
    kinds : as of ``RunOutputs``
    """
    for name, column in values.items():
        if not isinstance(attribute, Numeric):
            if attribute.publish == "set":
                continue  # the check of sets reads their values
            tree = attribute.hierarchy
            node = published_nodes(tree, pa.chunked_array([pa.Array.from_pandas(column)]))
            known = (node >= 0) & (node < tree.leaves if attribute.has_representative else True)
            yield attribute.name, "holds no label of its hierarchy", ~known
            continue
        is_number = np.isfinite(column.to_numpy(np.float64))
        yield str(name), "holds no number", ~is_number & ~absent & ~few
        yield str(name), f"holds a number that {attribute.name}_missing says is missing", is_number & absent
        if attribute.domain is not None:
            wrong = is_outside(column.to_numpy(), attribute.domain, kinds.get(str(name)))
            yield str(name), "lies outside its domain", wrong
    if isinstance(attribute, Numeric) and values.shape[1] > 1:
        low, high = (values[name] for name in values.columns)
        yield str(values.columns[1]), "lies below the column before it", (low > high).to_numpy(np.bool_)
