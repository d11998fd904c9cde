"""How CASTLE works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from anonymity.policy import Policy, PolicyError, Privacy, without_domain

NO_DELAY = "give 'tuples', 'event_time', or both; without either nothing would leave"


@dataclass(frozen=True)
class CastleParameters:
    """How CASTLE works (symbols of the paper in brackets).

    Attributes
    ----------
    delay_tuples : how many later tuples of its shard a tuple may wait for (delta), 0 or more; None: no such bound
    delay_event_time : how long a tuple may wait, milliseconds of event time, 0 or more; None: no such bound
    max_clusters : most clusters open at once (beta), 1 or more
    loss_window : how many recent releases tau averages (mu), 1 or more
    reuse_limit : most generalisations kept for reuse (the size of Omega), 0 or more; the oldest leave first
    suppression : ``withhold`` a tuple that cannot be released, or publish it fully ``generalise`` d as the paper does
    """

    delay_tuples: int | None = None
    delay_event_time: int | None = None
    max_clusters: int = 50
    loss_window: int = 100
    reuse_limit: int = 1000
    suppression: Literal["withhold", "generalise"] = "withhold"

    def __post_init__(self) -> None:
        if self.delay_tuples is None and self.delay_event_time is None:
            raise PolicyError(f"castle.delay: {NO_DELAY}")
        for field, value, least in (
            ("delay.tuples", self.delay_tuples, 0),
            ("delay.event_time", self.delay_event_time, 0),
            ("max_clusters", self.max_clusters, 1),
            ("loss_window", self.loss_window, 1),
            ("reuse_limit", self.reuse_limit, 0),
        ):
            if value is not None and value < least:
                raise PolicyError(f"castle.{field}: must be {least} or more, not {value}")


NEEDS_DOMAIN = (
    "castle.suppression: generalise publishes the whole range, and without a domain that is the range seen so far, "
    "whose ends are values of persons; give a domain, or withhold"
)


def problems(policy: Policy, privacy: Privacy, parameters: CastleParameters) -> Iterator[str]:
    """What does not go together, each with its field and what would be valid."""
    if parameters.suppression == "generalise":
        for name in without_domain(policy):
            yield f"policy.quasi_identifiers.{name}.domain: is missing; {NEEDS_DOMAIN}"
    if parameters.delay_event_time is not None and policy.event_time is None:
        yield "castle.delay.event_time: policy.event_time names no column; name one, or give delay.tuples alone"
