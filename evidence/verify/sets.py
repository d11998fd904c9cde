"""Check that published sets are possible for their releases, and state the loss that they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from crenel.anonymity.model.attributes import Categorical
from crenel.anonymity.model.hierarchy import Hierarchy
from crenel.evidence.verify.accounts import rows_text
from crenel.evidence.verify.spans import Span
from crenel.evidence.verify.verdict import Check, Finding, at_releases, judged

_ROUNDED = 1e-9
_LONGEST = 100
"""Maximum number of values in a set (``docs/reference/outputs.md``)."""


@dataclass(frozen=True)
class _Read:
    """A set as its text states it.

    Attributes
    ----------
    problem : why it is no set; empty for a set
    values : number of listed labels
    gain : how much less it loses than the lowest common ancestor of its values, as a share of one attribute
    """

    problem: str
    values: int = 1
    gain: float = 0.0


def sets(span: Span) -> Check:
    """Check each set: its order, its number of values, and the loss that its release states.

    Each listed value occurs in the class, so a class has at least as many rows as values. A set covers no more than the
    label that the class was formed under, so ``loss`` exceeds ``published_loss`` at least by what the set gains over
    the lowest common ancestor of its values.
    """
    findings: list[Finding] = []
    outputs, audit = span.outputs, span.outputs.audit
    gain = np.zeros(0 if audit is None else audit.num_rows)
    for attribute in outputs.policy.sets:
        rows = _of(attribute, outputs.released[attribute.name])
        wrong = np.flatnonzero(np.array([bool(row.problem) for row in rows], np.bool_) & span.rows)
        if len(wrong):
            findings.append(Finding(f"{attribute.name!r} of released {rows[wrong[0]].problem} in {rows_text(wrong)}"))
        if audit is None:
            continue
        stated = _of(attribute, audit[attribute.name])
        gain += [row.gain / len(outputs.policy.attributes) for row in stated]
        columns = (audit[name].to_pylist() for name in ("shard", "release_id", "tuples"))
        for row, shard, release, tuples, own in zip(stated, *columns, span.classes.judged.tolist(), strict=True):
            if not own:
                continue
            if row.problem:
                findings.append(Finding(f"{attribute.name!r} of audit {row.problem}", shard, release))
            elif row.values > max(tuples, 1):
                text = f"{attribute.name!r} lists {row.values} values, and the release has {tuples} tuples"
                findings.append(Finding(text, shard, release))
    if audit is not None:
        loss, published = (audit[name].to_numpy().astype(np.float64) for name in ("loss", "published_loss"))
        wrong = ~((published <= loss + _ROUNDED) & (loss - published >= gain - _ROUNDED) & (published >= -_ROUNDED))
        findings += at_releases(audit, wrong & span.classes.judged, "states a published_loss that its sets do not have")
    names = ", ".join(attribute.name for attribute in outputs.policy.sets)
    words = f"values of {names}: in order, at most one for each row of the class, with the stated loss"
    return judged("sets", words, findings)


def _of(attribute: Categorical, column: pa.ChunkedArray) -> list[_Read]:
    texts = column.to_pylist()
    node = attribute.hierarchy.by_label({label for text in set(texts) for label in (text or "").split(";")})
    known = {text: _read(attribute.hierarchy, node, text) for text in set(texts)}
    return [known[text] for text in texts]


def _read(tree: Hierarchy, node: Mapping[str, int], text: str | None) -> _Read:
    labels = (text or "").split(";")
    if len(labels) == 1:
        return _Read("" if labels[0] in node else "is no set of its hierarchy")
    if len(labels) > _LONGEST:
        return _Read(f"lists more than {_LONGEST} values")
    leaves = [node.get(label, tree.leaves) for label in labels]
    if max(leaves) >= tree.leaves:
        return _Read("lists a label that is no value of its hierarchy")
    if any(left >= right for left, right in pairwise(leaves)):
        return _Read("lists values twice or out of the order of its hierarchy")
    above = float(tree.loss[tree.lowest_common_ancestor(leaves[0], leaves[-1])])
    return _Read("", len(labels), above - (len(leaves) - 1) / max(tree.leaves - 1, 1))
