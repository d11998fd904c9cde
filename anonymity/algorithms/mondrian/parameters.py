"""Parameters of Mondrian."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy


@dataclass(frozen=True)
class MondrianParameters:
    """Parameters of Mondrian.

    Attributes
    ----------
    window : bounds that close a window
    cut : choice of a part's cut, by minimum ``loss`` or across its ``widest`` attribute, as in the paper
    """

    window: ClosedBy = field(default_factory=ClosedBy)
    cut: Literal["loss", "widest"] = "loss"

    def __post_init__(self) -> None:
        self.window.require("mondrian")

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        yield from self.window.problems(policy, privacy, "mondrian")
