"""Sets of categorical values as outputs have them, read back as leaves of a hierarchy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import SEPARATOR, Categorical
from crenel.anonymity.model.hierarchy import Hierarchy


@dataclass(frozen=True)
class PublishedSets:
    """The distinct sets in a column; a label above leaves stands for all leaves below it.

    Attributes
    ----------
    tree : hierarchy of the attribute
    set_of_row : (rows,) number of the set of each
    offsets : (sets + 1,) the leaves of set i are offsets[i] to offsets[i + 1]
    leaves : leaves of all sets, in ascending order within each; none for a set with an unknown label
    is_known : (sets,) whether the hierarchy has every label of the set
    """

    tree: Hierarchy
    set_of_row: NDArray[np.int64]
    offsets: NDArray[np.int64]
    leaves: NDArray[np.int64]
    is_known: NDArray[np.bool_]

    @classmethod
    def read(cls, attribute: Categorical, column: pa.ChunkedArray) -> PublishedSets:
        """Return the sets of a column of texts, as of ``Releases.listed``."""
        tree, encoded = attribute.hierarchy, column.combine_chunks().dictionary_encode(null_encoding="encode")
        texts = encoded.dictionary.to_pylist()
        node = tree.by_label({label for text in texts if text is not None for label in text.split(SEPARATOR)})
        sets: list[NDArray[np.int64]] = []
        known: list[bool] = []
        for text in texts:
            labels = [] if text is None else text.split(SEPARATOR)
            known.append(bool(labels) and all(label in node for label in labels))
            nodes = [node[label] for label in labels] if known[-1] else []
            below = [np.arange(tree.first[number], tree.last[number] + 1) for number in nodes]
            sets.append(np.unique(np.concatenate([np.zeros(0, np.int64), *below])))
        return cls(
            tree,
            encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
            np.cumsum([0, *map(len, sets)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.int64), *sets]).astype(np.int64),
            np.array(known, np.bool_),
        )

    @property
    def size(self) -> NDArray[np.int64]:
        """(sets,) number of leaves."""
        return np.diff(self.offsets)

    @property
    def loss(self) -> NDArray[np.float64]:
        """(rows,) loss of each set, 0 to 1: (leaves - 1) / (all leaves - 1)."""
        share: NDArray[np.float64] = np.maximum(self.size - 1, 0) / max(self.tree.leaves - 1, 1)
        return share[self.set_of_row]

    def over_leaves(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (all leaves,) the sum of (rows,) weights, each spread evenly over the leaves of its set."""
        by_set = np.bincount(self.set_of_row, weight, len(self.size)) / np.maximum(self.size, 1)
        amounts = np.repeat(by_set, self.size)
        return np.bincount(self.leaves, amounts, self.tree.leaves).astype(np.float64)
