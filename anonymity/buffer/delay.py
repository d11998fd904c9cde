"""Parameters of algorithms that buffer tuples up to a delay bound: validation and warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.outcomes import REUSE_RISK
from crenel.anonymity.model.policy import Policy, without_domain
from crenel.anonymity.model.weights import Weights, problems_of_weights, require_weights

NO_DELAY = "give 'tuples', 'event_time', or both; without either nothing would leave"


class DelayParameters(Protocol):
    """Parameters of an algorithm that buffers tuples up to a delay bound; ``CastleParameters`` documents each."""

    @property
    def delay_tuples(self) -> int | None: ...
    @property
    def delay_event_time(self) -> int | None: ...
    @property
    def delay_jitter(self) -> float: ...
    @property
    def max_clusters(self) -> int: ...
    @property
    def loss_window(self) -> int: ...
    @property
    def reuse_limit(self) -> int: ...
    @property
    def suppression(self) -> Literal["withhold", "generalize"]: ...
    @property
    def weights(self) -> Weights: ...


def require_delay(parameters: DelayParameters, algorithm: str, *least: tuple[str, int]) -> None:
    """Raise ``PolicyError`` where no delay is set, or a setting lies below its minimum.

    ``least`` holds pairs of a setting and its minimum; the minimum of a delay is 0.
    """
    if parameters.delay_tuples is None and parameters.delay_event_time is None:
        raise PolicyError(f"{algorithm}.delay: {NO_DELAY}")
    delays = ("delay.tuples", parameters.delay_tuples, 0), ("delay.event_time", parameters.delay_event_time, 0)
    for field, value, lowest in (*delays, *((name, getattr(parameters, name), number) for name, number in least)):
        if value is not None and value < lowest:
            raise PolicyError(f"{algorithm}.{field}: must be {lowest} or more, not {value}")
    if not 0 <= parameters.delay_jitter <= 1:
        raise PolicyError(f"{algorithm}.delay.jitter: must be from 0 to 1, not {parameters.delay_jitter}")
    require_weights(parameters.weights, algorithm)


def delay_warnings(parameters: DelayParameters, algorithm: str) -> Iterator[str]:
    """Yield warnings about tuples that are published alone, each with its field."""
    if parameters.reuse_limit:
        yield (
            f"{algorithm}.reuse_limit: is {parameters.reuse_limit}, so tuples are published alone under an earlier "
            f"generalization. {REUSE_RISK}. Set it to 0, unless no recipient can know when records arrive"
        )
    alone = ("reuse_limit", parameters.reuse_limit), ("suppression", parameters.suppression == "generalize")
    named = " and ".join(f"{algorithm}.{name}" for name, given in alone if given)
    if named and parameters.delay_jitter == 0:
        yield (
            f"{algorithm}.delay.jitter: is 0, and by {named} tuples are published alone, exactly at the end of "
            "their delay. An attacker with knowledge of a person's arrival time can find the row; give a share of the "
            "delay, such as 0.25, or publish none alone (reuse_limit: 0, suppression: withhold)"
        )


def problems_of_delay(policy: Policy, parameters: DelayParameters, algorithm: str) -> Iterator[str]:
    """Yield conflicts between the policy and the settings of an algorithm that buffers tuples."""
    if parameters.suppression == "generalize":
        for name in without_domain(policy):
            yield (
                f"policy.quasi_identifiers.{name}.domain: is missing; {algorithm}.suppression: generalize publishes "
                "the whole range, and without a domain that is the range seen so far, whose ends are values of "
                "persons; give a domain, or withhold"
            )
    if parameters.delay_event_time is not None and policy.event_time is None:
        yield f"{algorithm}.delay.event_time: policy.event_time names no column; name one, or give delay.tuples alone"
    yield from problems_of_weights(policy, parameters.weights, algorithm)
