"""How CASTLE works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from crenel.anonymity.buffer.delay import problems_of_delay, require_delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy


@dataclass(frozen=True)
class CastleParameters:
    """How CASTLE works (symbols of the paper in brackets).

    Attributes
    ----------
    delay_tuples : how many later tuples of its shard a tuple may wait for (delta), 0 or more; None: no such bound
    delay_event_time : how long a tuple may wait, milliseconds of event time, 0 or more; None: no such bound
    delay_jitter : share of the delay, 0 to 1, that a tuple's own deadline may come before its end
    max_clusters : most clusters open at once (beta), 1 or more
    loss_window : how many recent releases tau averages (mu), 1 or more
    reuse_limit : most generalizations kept for reuse (the size of Omega), 0 or more; the oldest leave first. The paper
        keeps all; none are kept by default, since it hardly gains and when a reused tuple leaves may tell whose it is
    suppression : ``withhold`` a tuple that cannot be released, or publish it fully ``generalize`` d as the paper does
    """

    delay_tuples: int | None = None
    delay_event_time: int | None = None
    delay_jitter: float = 0.0
    max_clusters: int = 50
    loss_window: int = 100
    reuse_limit: int = 0
    suppression: Literal["withhold", "generalize"] = "withhold"

    def __post_init__(self) -> None:
        require_delay(self, "castle", ("max_clusters", 1), ("loss_window", 1), ("reuse_limit", 0))


def problems(policy: Policy, privacy: Privacy, parameters: CastleParameters) -> Iterator[str]:
    """What does not go together, each with its field and what would be valid."""
    yield from problems_of_delay(policy, parameters, "castle")
