"""How nearest release works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from crenel.anonymity.buffer.delay import problems_of_delay, require_delay
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy


@dataclass(frozen=True)
class NearestParameters:
    """How nearest release works.

    Attributes
    ----------
    delay_tuples : how many later tuples of its shard a tuple may wait for, 0 or more; None: no such bound
    delay_event_time : how long a tuple may wait, milliseconds of event time, 0 or more; None: no such bound
    delay_jitter : share of the delay, 0 to 1, that a tuple's own deadline may come before its end
    loss_window : how many recent releases the mean loss tau is taken of, 1 or more
    reuse_limit : most generalizations kept for reuse, 0 or more; the oldest leave first. None are kept by default, as
        a reused tuple is published alone, and an attacker who knows when it arrived may name its person
    suppression : ``withhold`` a tuple that cannot be released, or publish it fully ``generalize`` d
    """

    delay_tuples: int | None = None
    delay_event_time: int | None = None
    delay_jitter: float = 0.0
    loss_window: int = 100
    reuse_limit: int = 0
    suppression: Literal["withhold", "generalize"] = "withhold"

    max_clusters: ClassVar[int] = 1
    """All that waits is one cluster to what is shared with CASTLE (``crenel.anonymity.algorithms.nearest.shard``)."""

    def __post_init__(self) -> None:
        require_delay(self, "nearest", ("loss_window", 1), ("reuse_limit", 0))


def problems(policy: Policy, privacy: Privacy, parameters: NearestParameters) -> Iterator[str]:
    """What does not go together, each with its field and what would be valid."""
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
