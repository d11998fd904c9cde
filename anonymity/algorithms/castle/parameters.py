"""Parameters of CASTLE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from crenel.anonymity.buffer.delay import problems_of_delay, require_delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy


@dataclass(frozen=True)
class CastleParameters:
    """Parameters of CASTLE (symbols of the paper in brackets).

    Attributes
    ----------
    delay_tuples : maximum delay in tuples of the shard (delta), 0 or more; None: no such bound
    delay_event_time : maximum delay in milliseconds of event time, 0 or more; None: no such bound
    delay_jitter : share of the delay, 0 to 1, by which a tuple's own deadline may come earlier
    max_clusters : maximum number of open clusters (beta), 1 or more
    loss_window : number of recent releases that tau averages (mu), 1 or more
    reuse_limit : maximum number of generalizations kept for reuse (the size of Omega), 0 or more; the oldest are
        dropped first. The paper keeps all. The default keeps none: reuse hardly helps, and the time of a reused
        tuple may reveal its person
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
    """Yield each conflict between the settings, with its field and the valid values."""
    yield from problems_of_delay(policy, parameters, "castle")
