"""What a release would lose whose members were drawn at random: how alike the tuples of a region are.

The expected InfoLoss (CASTLE, Section 2.2; the normalized certainty penalty with leaves counted from 0) of the smallest
generalization of so many tuples, each drawn from all of the region. It is a sum over attributes, and of each follows
from how often its values occur: no tuple is drawn. An algorithm that lets near ones leave together loses less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.domain import scales


@dataclass(frozen=True)
class Sample:
    """Encoded tuples.

    Attributes
    ----------
    numeric : (rows, numeric) as ``crenel.state.block.Block`` has them
    categorical : (rows, categorical) leaves
    """

    numeric: NDArray[np.float64]
    categorical: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.numeric)

    @property
    def values(self) -> NDArray[np.float64]:
        """(rows, attributes) numbers, then positions of leaves, as a tree of regions counts them."""
        return np.hstack((self.numeric, self.categorical.astype(np.float64)))


class ExpectedLoss:
    """Expected losses of parts of a sample.

    Parameters
    ----------
    policy : domains and hierarchies; a number without a domain is measured by the range of the sample
    sample : at least one tuple
    members : how many are drawn, 2 or more
    """

    def __init__(self, policy: Policy, sample: Sample, members: int) -> None:
        bounds = [
            attribute.domain or (float(column.min()), float(column.max()))
            for attribute, column in zip(policy.numeric, sample.numeric.T, strict=True)
        ]
        lower, upper = np.array(bounds, np.float64).reshape(-1, 2).T
        self._scales = scales(lower, upper, len(policy.quasi_identifiers))
        self._trees = [attribute.hierarchy for attribute in policy.categorical]
        self._attributes = len(policy.quasi_identifiers)
        self._members = members

    def of(self, attribute: int, values: NDArray[np.float64]) -> float:
        """What an attribute contributes to the loss of a part.

        Parameters
        ----------
        attribute : as of ``crenel.anonymity.model.region_tree.Cut``
        values : (tuples,) of the part, ascending, at least one
        """
        if attribute < len(self._scales):
            scale = float(self._scales[attribute])
            return scale * self._range(values) if scale > 0 else 0.0
        return self._ancestor(attribute - len(self._scales), values) / self._attributes

    def _range(self, values: NDArray[np.float64]) -> float:
        """Of numbers, how far the lowest and the highest of those drawn are apart."""
        below = np.arange(1, len(values)) / len(values)
        # A gap between two neighbors is covered unless all lie below it, or all above.
        return float(np.diff(values) @ (1 - below**self._members - (1 - below) ** self._members))

    def _ancestor(self, number: int, values: NDArray[np.float64]) -> float:
        """Of categories, the loss of the lowest node above those drawn."""
        tree = self._trees[number]
        up_to = np.concatenate(([0], np.cumsum(np.bincount(values.astype(np.intp), minlength=tree.leaves))))
        within = ((up_to[tree.last + 1] - up_to[tree.first]) / len(values)) ** self._members
        # All of them lie below a node with this probability; below its parent, the loss is that much more.
        return float(tree.loss[tree.root] - within @ (tree.loss[tree.parent] - tree.loss))
