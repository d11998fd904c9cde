"""Conversion of values of a categorical attribute to leaves of its hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Categorical, Generalized
from crenel.anonymity.model.builders.builder import Finder
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import MISSING, OTHER
from crenel.anonymity.model.values import texts_of_labels
from crenel.operators.encode.columns import Batch, Mask, Read


class Leaves(NamedTuple):
    """Leaves and validation results of the values of one batch.

    Attributes
    ----------
    leaf : (rows,) leaf of each value; undefined where one of the masks is true
    missing : mask of missing values that are not allowed; None: none
    bad_type : mask of values that are not finite numbers, for a hierarchy of numbers; None: none
    unknown : mask of values without a leaf; None: none
    """

    leaf: NDArray[np.intp]
    missing: Mask | None
    bad_type: Mask | None
    unknown: Mask | None


class Categories:
    """Leaf positions of the values of a categorical attribute.

    Parameters
    ----------
    attribute : attribute with its hierarchy
    labels : as of ``Read``
    keep_missing : whether a missing value becomes the leaf ``MISSING``; no value may then have that name

    Raises
    ------
    PolicyError
        Missing values are kept, but the hierarchy has no leaf for them.
    """

    def __init__(self, attribute: Categorical | Generalized, labels: pa.DataType | None, *, keep_missing: bool) -> None:
        tree = attribute.hierarchy
        self._missing = None
        if keep_missing:
            self._missing = int(tree.find([MISSING])[0])
            if not 0 <= self._missing < tree.leaves:
                raise PolicyError(
                    f"{attribute.place}.hierarchy: lacks the leaf {MISSING!r}, which "
                    "policy.missing: value needs; build it with Hierarchy.with_missing"
                )
        self._is_numeric = attribute.builder is not None and attribute.builder.kind == "number"
        self._find = (
            _label_finder(tree.labels[: tree.leaves], labels)
            if attribute.builder is None
            else attribute.builder.finder()
        )

    def leaves(self, batch: Batch, read: Read) -> Leaves:
        """Return the leaves of the column that ``read`` names."""
        if not self._is_numeric:
            values, which = batch.distinct(read)
            leaf = self._find(values)
            if self._missing is not None:
                leaf[leaf == self._missing] = -1
            leaves = leaf[which]
            if leaves.min(initial=0) >= 0:
                return Leaves(leaves, None, None, None)
            missing: Mask | None = which == len(values) - 1
            bad = None
        else:
            numbers, missing, bad = batch.numbers(read)
            leaves = self._find(numbers.astype(np.float32) if read.is_float32 else numbers)
        if self._missing is None or missing is None:
            return Leaves(leaves, missing, bad, leaves < 0)
        leaves[missing] = self._missing
        return Leaves(leaves, None, None if bad is None else bad & ~missing, leaves < 0)


class Labels(Categories):
    """Published labels of the values of a generalized attribute, with their codes.

    Parameters
    ----------
    attribute, labels, keep_missing : as for ``Categories``
    key : of the codes
    null_text : as for ``Batch.published_codes``

    Raises
    ------
    PolicyError
        As for ``Categories``.
    """

    def __init__(
        self,
        attribute: Generalized,
        labels: pa.DataType | None,
        key: str,
        null_text: str | None,
        *,
        keep_missing: bool,
    ) -> None:
        super().__init__(attribute, labels, keep_missing=keep_missing)
        self._labels = pa.array(attribute.labels, pa.string())
        read = Read(attribute.name, "text", 0)
        self._codes = Batch((self._labels,)).published_codes(read, key, None, null_text)

    def published(self, found: Leaves) -> tuple[pa.StringArray, NDArray[np.uint64]]:
        """Return (rows,) the labels of leaves, and their codes; undefined where a mask of ``found`` is true."""
        leaf = np.maximum(found.leaf, 0)
        return self._labels.take(pa.array(leaf)), self._codes[leaf]


def _label_finder(leaves: Sequence[str], labels: pa.DataType | None) -> Finder:
    """Return a finder for hierarchies in which a leaf denotes a value; of two such leaves the one with its text counts.

    A text without a leaf belongs to the leaf ``OTHER``, where there is one.

    ``labels``: as of ``Read``
    """
    position: dict[str, int] = {}
    if labels is not None:
        for number, text in enumerate(texts_of_labels(leaves, labels)):
            position.setdefault(text, number)
    position |= {leaf: number for number, leaf in enumerate(leaves)}
    index: pd.Index[Any] = pd.Index([*position], dtype=object)
    index.get_indexer(index[:1])  # builds the table now, not during the first batch
    leaf = np.array([*position.values(), position.get(OTHER, -1)], np.intp)

    def find(texts: NDArray[Any]) -> NDArray[np.intp]:
        found: NDArray[np.intp] = leaf[index.get_indexer(pd.Index(texts, dtype=object))]
        found[pd.isna(texts)] = -1
        return found

    return find
