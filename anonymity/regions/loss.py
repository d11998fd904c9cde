"""Expected loss of a release of random members, which measures the similarity of a region's tuples.

This is the expected InfoLoss of the smallest generalization of random tuples from the region (CASTLE, Section 2.2; the
normalized certainty penalty with leaves counted from 0). It is a sum over attributes, computed from the frequencies of
their values without drawing tuples. An algorithm that groups similar tuples loses less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.space.domain import scales


@dataclass(frozen=True)
class EncodedSample:
    """Encoded tuples of a sample.

    Attributes
    ----------
    numeric : (rows, numeric) as in ``crenel.state.block.Block``
    categorical : (rows, categorical) leaves
    """

    numeric: NDArray[np.float64]
    categorical: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.numeric)

    @property
    def values(self) -> NDArray[np.float64]:
        """Return (rows, attributes) numbers, then positions of leaves, in the order of a region tree's attributes."""
        return np.hstack((self.numeric, self.categorical.astype(np.float64)))


class ExpectedLoss:
    """Expected losses of parts of a sample.

    Parameters
    ----------
    policy : domains and hierarchies; a numeric attribute without a domain is normalized by the range of the sample
    sample : at least one tuple
    members : number of random tuples, at least 2
    """

    def __init__(self, policy: Policy, sample: EncodedSample, members: int) -> None:
        bounds = [
            attribute.domain or (float(column.min()), float(column.max()))
            for attribute, column in zip(policy.numeric, sample.numeric.T, strict=True)
        ]
        lower, upper = np.array(bounds, np.float64).reshape(-1, 2).T
        self._scales = scales(lower, upper, len(policy.attributes))
        self._trees = [attribute.hierarchy for attribute in policy.categorical]
        self._attributes = len(policy.attributes)
        self._members = members

    def of(self, attribute: int, values: NDArray[np.float64]) -> float:
        """Return the contribution of an attribute to the loss of a part.

        Parameters
        ----------
        attribute : as for ``crenel.anonymity.model.region_tree.Cut``
        values : (tuples,) of the part, ascending, at least one
        """
        if attribute < len(self._scales):
            scale = float(self._scales[attribute])
            return scale * self._range(values) if scale > 0 else 0.0
        return self._ancestor(attribute - len(self._scales), values) / self._attributes

    def _range(self, values: NDArray[np.float64]) -> float:
        """Return the expected difference of the maximum and minimum of the random numbers."""
        below = np.arange(1, len(values)) / len(values)
        # A gap between two neighbors is covered unless all random values lie below it, or all above.
        return float(np.diff(values) @ (1 - below**self._members - (1 - below) ** self._members))

    def _ancestor(self, number: int, values: NDArray[np.float64]) -> float:
        """Return the expected loss of the lowest node above the random leaves."""
        tree, nodes = self._trees[number], np.unique(values.astype(np.intp))
        above: list[NDArray[np.intp]] = []
        while len(nodes):
            above.append(nodes)
            nodes = np.unique(tree.parent[nodes]).astype(np.intp)
            nodes = nodes[nodes != tree.root]
        # All of them lie below a node with this probability; below its parent, the loss is larger by the difference.
        node = np.unique(np.concatenate(above))
        inside = np.searchsorted(values, tree.last[node], side="right") - np.searchsorted(values, tree.first[node])
        within = (inside / len(values)) ** self._members
        return float(tree.loss[tree.root] - within @ (tree.loss[tree.parent[node]] - tree.loss[node]))
