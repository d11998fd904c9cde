"""Parameters of OLA, and its requirements on the policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import HierarchyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy

MOST_NODES = 100_000
"""Maximum number of nodes in a lattice, the combinations of levels of all attributes."""


@dataclass(frozen=True)
class OlaParameters:
    """Parameters of OLA.

    Attributes
    ----------
    window : bounds that close a window
    max_suppression : maximum share of a window's tuples that may be suppressed, 0 to 1
    metric : loss metric that the chosen generalization minimizes (``crenel.anonymity.algorithms.ola.metrics``)
    """

    window: ClosedBy = field(default_factory=ClosedBy)
    max_suppression: float = 0.05
    metric: Literal["precision", "discernibility", "entropy"] = "entropy"

    def __post_init__(self) -> None:
        self.window.require("ola")
        if not 0 <= self.max_suppression <= 1:
            raise PolicyError(f"ola.max_suppression: must be from 0 to 1, not {self.max_suppression:g}")

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        yield from self.window.problems(policy, privacy, "ola")
        levels = []
        for attribute in policy.quasi_identifiers:
            if isinstance(attribute, Numeric):
                yield (
                    f"{attribute.place}.type: ola moves numbers by levels too; make it categorical, with a hierarchy "
                    "such as {numbers: {domain: [0, 120], levels: [1, 5, 10]}}"
                )
                continue
            try:
                levels.append(int(attribute.hierarchy.levels()[attribute.hierarchy.root]) + 1)
            except HierarchyError as error:
                yield f"policy.quasi_identifiers.{attribute.name}.hierarchy: {error}"
        if (nodes := prod(levels)) > MOST_NODES:
            yield (
                f"policy.quasi_identifiers: have {nodes} combinations of levels, and ola looks through {MOST_NODES} at "
                "most; leave levels or columns out"
            )
