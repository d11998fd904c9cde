"""Parameters of nearest release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from crenel.anonymity.buffer.delay import problems_of_delay, require_delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy


@dataclass(frozen=True)
class NearestParameters:
    """Parameters of nearest release.

    Attributes
    ----------
    delay_tuples : maximum delay in tuples of the shard, 0 or more; None: no such bound
    delay_event_time : maximum delay in milliseconds of event time, 0 or more; None: no such bound
    delay_jitter : share of the delay, 0 to 1, by which a tuple's own deadline may come earlier
    loss_window : number of recent releases that the mean loss tau averages, 1 or more
    reuse_limit : maximum number of generalizations kept for reuse, 0 or more; the oldest are dropped first. The
        default keeps none: a reused tuple is published alone, and an attacker with timing knowledge may
        re-identify its person
    suppression : ``withhold`` a tuple that cannot be released, or publish it fully ``generalize`` d
    """

    delay_tuples: int | None = None
    delay_event_time: int | None = None
    delay_jitter: float = 0.0
    loss_window: int = 100
    reuse_limit: int = 0
    suppression: Literal["withhold", "generalize"] = "withhold"

    max_clusters: ClassVar[int] = 1
    """Code shared with CASTLE sees the buffer as one cluster (``crenel.anonymity.algorithms.nearest.shard``)."""

    def __post_init__(self) -> None:
        require_delay(self, "nearest", ("loss_window", 1), ("reuse_limit", 0))


def problems(policy: Policy, privacy: Privacy, parameters: NearestParameters) -> Iterator[str]:
    """Yield each conflict between the settings, with its field and the valid values."""
    yield from problems_of_delay(policy, parameters, "nearest")
    horizon = None if privacy.lasting is None else privacy.lasting.horizon
    if horizon is None:
        return
    if policy.event_time is None:
        yield "privacy.persons.horizon: policy.event_time names no column; name one, or remove the horizon"
    elif parameters.delay_event_time is None:
        yield "privacy.persons.horizon: nearest.delay.event_time is missing: rows must leave first"
    elif parameters.delay_event_time > horizon:
        yield "privacy.persons.horizon: must be nearest.delay.event_time or more: rows leave first"
