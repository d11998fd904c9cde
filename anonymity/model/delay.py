"""Bounds on the time that tuples wait, in settings of several algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal

from crenel.anonymity.model.durations import format_duration
from crenel.anonymity.model.fields import Duration, Natural, Positive, Share, Weights, about, setting
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.weights import require_weights


@setting
class Delay:
    """Bounds on the time that a tuple waits for its equivalence class, at least one of the two.

    Attributes
    ----------
    tuples : maximum number of later tuples of its shard for which a tuple waits (delta in CASTLE); None: unbounded. For
        SUHDSA one window or more, and by default two
    event_time : maximum wait in event time; None: unbounded. For SUHDSA as ``tuples``
    jitter : maximum share of the delay, from 0 to 1, by which a tuple's random deadline comes earlier. It hides the
        time of arrival of tuples in singleton releases: by reuse, or with ``suppression: generalize`` (CASTLE and
        nearest release)
    """

    tuples: Annotated[Natural | None, about("how many later tuples one may wait for, 0 or more")] = None
    event_time: Annotated[
        Duration | None, about("a duration such as '10 min', '500 ms', '2 h', '1 day', or whole milliseconds")
    ] = None
    jitter: Annotated[
        Share, about("a number from 0 to 1: the share of the delay that a tuple's own deadline may come before its end")
    ] = 0.0

    def __post_init__(self) -> None:
        if self.tuples is None and self.event_time is None:
            raise ValueError("give 'tuples', 'event_time', or both; without either nothing would leave")

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield the bounds as ``crenel check`` shows them."""
        if self.tuples is not None:
            yield "delay.tuples", f"{self.tuples} later tuples of the shard"
        if self.event_time is not None:
            yield "delay.event_time", format_duration(self.event_time)


@setting
class DelayedSettings:
    """Settings of algorithms that buffer tuples up to a delay bound.

    Attributes
    ----------
    delay : how long a tuple may wait
    loss_window : number of recent releases (mu) in the mean loss tau, up to which a cluster of CASTLE takes tuples, and
        a generalization is reused
    reuse_limit : maximum number of published generalizations that are kept for reuse (the size of Omega). Above 0,
        singleton releases occur, and each run warns: set a jitter with it
    suppression : ``"withhold"`` suppresses a tuple without a class; ``"generalize"`` publishes it fully generalized, as
        CASTLE's paper does, and is refused if ``shards.by`` divides by values
    weights : weight of each quasi-identifier in distances, above 0; 1 where not given. One of a greater weight is
        generalized less, at the cost of the others. Stated losses have no weights
    """

    delay: Annotated[Delay, about("{tuples: 1000}, {event_time: 10 min}, or both")]
    loss_window: Annotated[Positive, about("a whole number, 1 or more")] = 100
    reuse_limit: Annotated[Natural, about("a whole number, 0 or more")] = 0
    suppression: Annotated[Literal["withhold", "generalize"], about("'withhold' or 'generalize'")] = "withhold"
    weights: Annotated[Weights, about("a mapping of quasi-identifiers to numbers above 0, as {age: 2}")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        require_weights(self.weights)

    @property
    def cluster_limit(self) -> int:
        """Maximum number of open clusters; without clusters, the whole buffer is one."""
        return 1


@setting
class Window:
    """Bounds of a window; without both, the end of a bounded input closes it.

    Attributes
    ----------
    tuples : number of tuples that close a window, k or more; None: no number
    event_time : event time beyond the window's first tuple that closes it; None: no time
    """

    tuples: Annotated[Positive | None, about("a whole number, privacy.k or more, or null")] = None
    event_time: Annotated[Duration | None, about("a duration such as '10 s', or null")] = None

    def problems(self, policy: Policy, privacy: Privacy, algorithm: str) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        if self.tuples is not None and self.tuples < privacy.k:
            yield f"{algorithm}.window.tuples: must be k ({privacy.k}) or more, not {self.tuples}"
        if self.event_time is not None and policy.event_time is None:
            yield (
                f"{algorithm}.window.event_time: policy.event_time names no column; name one, or give window.tuples "
                "alone"
            )

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield the bounds as ``crenel check`` shows them."""
        if self.tuples is not None:
            yield "window.tuples", f"{self.tuples} close a window"
        if self.event_time is not None:
            yield "window.event_time", f"{format_duration(self.event_time)} close a window"
        if self.tuples is None and self.event_time is None:
            yield "window", "all of the input"
