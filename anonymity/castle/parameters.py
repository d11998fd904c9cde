"""How CASTLE works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from crenel.anonymity.errors import PolicyError
from crenel.anonymity.outcomes import REUSE_RISK
from crenel.anonymity.policy import Policy, without_domain
from crenel.anonymity.privacy import Privacy

NO_DELAY = "give 'tuples', 'event_time', or both; without either nothing would leave"


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


def require_delay(parameters: Any, algorithm: str, *least: tuple[str, int]) -> None:
    """Raise ``PolicyError`` where there is no delay, or a number is below its least, which is 0 for delays."""
    if parameters.delay_tuples is None and parameters.delay_event_time is None:
        raise PolicyError(f"{algorithm}.delay: {NO_DELAY}")
    delays = ("delay.tuples", parameters.delay_tuples, 0), ("delay.event_time", parameters.delay_event_time, 0)
    for field, value, lowest in (*delays, *((name, getattr(parameters, name), number) for name, number in least)):
        if value is not None and value < lowest:
            raise PolicyError(f"{algorithm}.{field}: must be {lowest} or more, not {value}")
    if not 0 <= parameters.delay_jitter <= 1:
        raise PolicyError(f"{algorithm}.delay.jitter: must be from 0 to 1, not {parameters.delay_jitter}")


def cautions_of_delay(parameters: Any, algorithm: str) -> Iterator[str]:
    """Return warnings about tuples that are published alone, each with its field."""
    if parameters.reuse_limit:
        yield (
            f"{algorithm}.reuse_limit: is {parameters.reuse_limit}, so tuples are published alone under an earlier "
            f"generalization. {REUSE_RISK}. Set it to 0, unless no recipient can know when records arrive"
        )
    alone = ("reuse_limit", parameters.reuse_limit), ("suppression", parameters.suppression == "generalize")
    named = " and ".join(f"{algorithm}.{name}" for name, given in alone if given)
    if named and parameters.delay_jitter == 0:
        yield (
            f"{algorithm}.delay.jitter: is 0, and by {named} tuples leave alone, exactly when their delay is over. Who "
            "knows when a person's row came may find it; give a share of the delay, such as 0.25, or let none leave "
            "alone (reuse_limit: 0, suppression: withhold)"
        )


def problems(policy: Policy, privacy: Privacy, parameters: CastleParameters) -> Iterator[str]:
    """What does not go together, each with its field and what would be valid."""
    yield from problems_of_delay(policy, parameters, "castle")


def problems_of_delay(policy: Policy, parameters: Any, algorithm: str) -> Iterator[str]:
    """The same of any algorithm whose tuples wait for a delay, and may be published fully generalized after it."""
    if parameters.suppression == "generalize":
        for name in without_domain(policy):
            yield (
                f"policy.quasi_identifiers.{name}.domain: is missing; {algorithm}.suppression: generalize publishes "
                "the whole range, and without a domain that is the range seen so far, whose ends are values of "
                "persons; give a domain, or withhold"
            )
    if parameters.delay_event_time is not None and policy.event_time is None:
        yield f"{algorithm}.delay.event_time: policy.event_time names no column; name one, or give delay.tuples alone"
