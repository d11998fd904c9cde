"""Contribution of each quasi-identifier to the loss of released tuples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Numeric, QuasiIdentifier
from crenel.anonymity.model.policy import Policy
from crenel.evidence.outputs import RunOutputs, ends, published_nodes
from crenel.evidence.published_sets import PublishedSets


def covered(lower: NDArray[np.float64], upper: NDArray[np.float64], domain: tuple[float, float]) -> NDArray[np.float64]:
    """Return the loss of each interval, 0 to 1: its width as a share of that of ``domain`` (CASTLE, Section 2.2)."""
    width = domain[1] / 2 - domain[0] / 2  # halves, because the full range may overflow
    # Rounding widens integer ends, possibly beyond the domain.
    return np.minimum((upper / 2 - lower / 2) / width, 1.0) if width > 0 else np.zeros(len(lower))


def loss_of(attribute: QuasiIdentifier, table: pa.Table) -> NDArray[np.float64]:
    """Return (rows,) the loss of each published interval, label or set, 0 to 1 (CASTLE, Section 2.2).

    A number without a domain is measured by the range of all rows, and a label that its hierarchy lacks as the root.
    """
    if isinstance(attribute, Numeric):
        lower, upper = ends(attribute, table)
        return covered(lower, upper, attribute.domain or (float(lower.min()), float(upper.max())))
    column, tree = table[attribute.name], attribute.hierarchy
    if attribute.publish == "set":
        return PublishedSets.read(attribute, column).loss
    return np.asarray(tree.loss[published_nodes(tree, column)], np.float64)


def losses(
    outputs: RunOutputs, *, policy: Policy | None = None, representative: bool = False
) -> dict[str, float | None]:
    """Return the mean loss of each quasi-identifier over released tuples, 0 to 1, in the order of the policy.

    Their mean is InfoLoss (CASTLE, Section 2.2), with the loss of the listed values for a set. A number without a
    domain was measured by the values seen before each release, which no output holds. Such attributes share the
    remainder of the stated loss, in proportion to their published widths; beside representatives, they are measured by
    the range of all published values. A loss is None where one value represents each release. The result is empty
    where nothing was released.

    Parameters
    ----------
    policy : its hierarchies measure categories; None: that of the outputs
    representative : whether one value of each attribute represents a release, which reveals no loss
    """
    policy = outputs.policy if policy is None else policy
    table = outputs.released if outputs.audit is None else outputs.audit
    if not table.num_rows:
        return {}
    if representative:
        return {attribute.name: None for attribute in policy.attributes}
    weight = np.ones(table.num_rows) if outputs.audit is None else _numbers(table, "tuples")
    measured: dict[str, float] = {}
    observed: dict[str, float] = {}
    for attribute in policy.attributes:
        if attribute.has_representative:
            continue
        measured[attribute.name] = _mean(loss_of(attribute, table), weight)
        if isinstance(attribute, Numeric) and attribute.domain is None:
            observed[attribute.name] = measured[attribute.name]
    stated_as = "published_loss" if policy.states_published_loss and "published_loss" in table.column_names else "loss"
    # Beside representatives, the remainder of the stated loss is not that of the observed ranges alone.
    represented = any(attribute.has_representative for attribute in policy.attributes)
    stated = None if outputs.audit is None or represented else _mean(_numbers(table, stated_as), weight)
    known = [loss for name, loss in measured.items() if name not in observed]
    if stated is not None and observed:
        measured |= _divided(max(stated * len(measured) - sum(known), 0.0), observed)
    return {attribute.name: measured.get(attribute.name) for attribute in policy.attributes}


def _divided(loss: float, widths: dict[str, float]) -> dict[str, float]:
    """Divide a loss in proportion to widths, with no part above 1."""
    divided: dict[str, float] = {}
    while left := {name: width for name, width in widths.items() if name not in divided}:
        total = sum(left.values())
        parts = {name: loss * width / total if total else loss / len(left) for name, width in left.items()}
        full = [name for name, part in parts.items() if part > 1]
        if not full:
            return divided | parts
        divided |= dict.fromkeys(full, 1.0)
        loss = max(loss - len(full), 0.0)
    return divided


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    return np.asarray(table[name].combine_chunks(), np.float64)


def _mean(values: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    return float(np.average(values, weights=weight))
