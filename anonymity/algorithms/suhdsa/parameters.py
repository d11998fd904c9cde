"""Settings of l-diversity-enhanced SUHDSA, and of the methods it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.durations import LONGEST
from crenel.anonymity.model.errors import FieldError
from crenel.anonymity.model.fields import MOST, Duration, Natural, Positive, Real, Share, Weights, about, setting
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.weights import problems_of_weights


@setting
class Target:
    """Entropy-driven target l_t above l, at which SUHDSA's controller aims (SUHDSA, Appendix B; symbols in brackets).

    Attributes
    ----------
    most : maximum of the target (l_max), from l to k; its minimum is l, which each release satisfies
    smoothing : weight of the newest window's entropy (alpha), above 0 and at most 1
    band : minimum change of the normalized entropy that moves the target (hysteresis), from 0 to 1
    dwell : minimum number of windows between two changes of the target, 0 or more
    """

    most: Annotated[Positive, about("a whole number from privacy.l to privacy.k")]
    smoothing: Annotated[Annotated[Real, Field(gt=0, le=1)], about("a number above 0 and at most 1")] = 0.3
    band: Annotated[Share, about("a number from 0 to 1")] = 0.05
    dwell: Annotated[Natural, about("a whole number, 0 or more")] = 5


@setting
class Adaptive:
    """Window size that trades delay for loss (UBDSA's rule, as quoted in SUHDSA, Table 1).

    Attributes
    ----------
    least : minimum number of tuples of a window, k or more; the maximum is ``suhdsa.tuples``
    delay_weight : weight of the mean delay against the mean loss, from 0 to 1
    windows : number of windows that are judged together, after which the size may change, 1 or more
    """

    least: Annotated[Positive, about("a whole number from privacy.k to suhdsa.tuples")]
    delay_weight: Annotated[Share, about("a number from 0 to 1")] = 0.5
    windows: Annotated[Positive, about("a whole number, 1 or more")] = 8


@setting
class SuhdsaSettings:
    """Settings of SUHDSA (symbols of the paper in brackets).

    A window closes when it holds ``tuples`` tuples, carried ones included, of which at least k are new since the last
    close. It also closes when the watermark is ``event_time`` beyond its first new tuple. A tuple without a release is
    carried into the next window until its delay is over. So the delay is at least one window. The default is two
    windows, in the units that bound the window.

    Attributes
    ----------
    tuples : number of tuples that close a window, including carried ones; at least k of them are new (beta in the
        paper). One of ``tuples`` and ``event_time`` is required
    event_time : event time that closes a window (T_beta)
    delay : how long a tuple may wait, one window or more; None: two windows
    distortion_weight : weight of the change of loss against that of time in the choice of a repair, from 0 to 1
        (lambda)
    neighbors : number of nearest groups that a repair considers (c)
    growth_cap : maximum size of a merged group, as a multiple of k subjects, 2 or more (gamma)
    output : whether a class is published as a ``"generalization"``, or by a ``"representative"`` value
    numeric : representative of the numbers of a group, in the output and in the search for neighbors
    categorical : representative of the categories of a group, in the same places
    weights : weight of each quasi-identifier in distances, 0 or more; 1 where not given
    target, adaptive : controllers of diversity and window size; None: without them
    """

    tuples: Annotated[Positive | None, about("a whole number, 1 or more, or null where event time closes it")] = None
    event_time: Annotated[
        Duration | None, about("a duration such as '10 s', or null where a number of tuples closes it")
    ] = None
    delay: Annotated[Delay | None, about("{tuples: 100}, {event_time: 20 s}, or both, or null for two windows")] = None
    distortion_weight: Annotated[Share, about("a number from 0 to 1")] = 0.7
    neighbors: Annotated[Positive, about("a whole number, 1 or more")] = 3
    growth_cap: Annotated[Annotated[Real, Field(ge=2)], about("a number, 2 or more")] = 3.0
    output: Annotated[Literal["generalization", "representative"], about("'generalization' or 'representative'")] = (
        "generalization"
    )
    numeric: Annotated[Literal["mean", "median"], about("'mean' or 'median'")] = "mean"
    categorical: Annotated[Literal["mode", "ancestor"], about("'mode' or 'ancestor'")] = "mode"
    weights: Annotated[Weights, about("a mapping of quasi-identifiers to numbers from 0, as {age: 2}")] = field(
        default_factory=dict
    )
    target: Annotated[Target | None, about("a mapping such as {most: 5}, or null to keep it at l")] = None
    adaptive: Annotated[Adaptive | None, about("a mapping such as {least: 20}, or null to keep the window's size")] = (
        None
    )

    def __post_init__(self) -> None:
        if self.tuples is None and self.event_time is None:
            raise ValueError("give 'tuples', 'event_time', or both; without either none would close")
        if self.delay is not None and self.delay.jitter:
            raise FieldError("delay.jitter", "windows have no deadlines of single tuples; remove it")
        delay = self.longest_delay
        for unit, bound, size in (
            ("tuples", delay.tuples, self.tuples),
            ("event_time", delay.event_time, self.event_time),
        ):
            if bound is not None and bound < (size or 0):
                raise FieldError(f"delay.{unit}", f"must be suhdsa.{unit} ({size}) or more, not {bound}")
        if self.adaptive is not None:
            if self.tuples is None:
                raise FieldError("adaptive", "needs suhdsa.tuples, the largest window")
            if self.adaptive.least > self.tuples:
                raise FieldError("adaptive.least", f"must be from 1 to {self.tuples}, not {self.adaptive.least}")

    @cached_property
    def longest_delay(self) -> Delay:
        """The delay, by default two windows."""
        if self.delay is not None:
            return self.delay
        tuples = None if self.tuples is None else min(2 * self.tuples, MOST)
        return Delay(tuples, None if self.event_time is None else min(2 * self.event_time, LONGEST))

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        if policy.event_time is None:
            # Report one problem only: a window in event time implies a delay in event time.
            if self.event_time is not None:
                yield "suhdsa.event_time: policy.event_time names no column; name one, or give suhdsa.tuples alone"
            elif self.longest_delay.event_time is not None:
                yield "suhdsa.delay.event_time: policy.event_time names no column; name one, or give delay.tuples alone"
        yield from problems_of_weights(policy, self.weights, "suhdsa")
        if self.target is not None:
            if not policy.sensitive:
                yield "suhdsa.target: needs a sensitive column"
            if not privacy.l <= self.target.most <= privacy.k:
                yield f"suhdsa.target.most: must be from {privacy.l} to {privacy.k}, not {self.target.most}"
        if self.adaptive is not None and self.adaptive.least < privacy.k:
            yield f"suhdsa.adaptive.least: must be k ({privacy.k}) or more, not {self.adaptive.least}"
