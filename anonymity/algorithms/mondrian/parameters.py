"""How Mondrian works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy


@dataclass(frozen=True)
class MondrianParameters:
    """How Mondrian works.

    Attributes
    ----------
    window : what closes a window
    cut : where a part is cut: by the least ``loss``, or across its ``widest`` attribute, as in the paper
    """

    window: ClosedBy = field(default_factory=ClosedBy)
    cut: Literal["loss", "widest"] = "loss"

    def __post_init__(self) -> None:
        self.window.require("mondrian")

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """What does not go with a policy, each with its field and what would be valid."""
        yield from self.window.problems(policy, privacy, "mondrian")
