"""Parameters of l-diversity-enhanced SUHDSA, and of the methods it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.weights import Weights, problems_of_weights, require_weights


@dataclass(frozen=True)
class AdaptiveTarget:
    """Entropy-driven target l_t (SUHDSA, Appendix B; symbols in brackets).

    Attributes
    ----------
    most : maximum target (l_max), from l to k; the minimum is l, which each release satisfies
    smoothing : weight of the newest window's entropy (alpha), above 0 to 1
    band : minimum change of the normalized entropy that moves the target (hysteresis), 0 to 1
    dwell : minimum number of windows between two changes of the target, 0 or more
    """

    most: int
    smoothing: float = 0.3
    band: float = 0.05
    dwell: int = 5


@dataclass(frozen=True)
class AdaptiveWindow:
    """Window size that trades delay for loss (UBDSA's rule, as quoted in SUHDSA, Table 1).

    Attributes
    ----------
    least : minimum window size in tuples, k or more; the maximum is ``SuhdsaParameters.tuples``
    delay_weight : weight of the mean delay against the mean loss, 0 to 1
    windows : number of windows judged before each change of the size, 1 or more
    """

    least: int
    delay_weight: float = 0.5
    windows: int = 8


@dataclass(frozen=True)
class SuhdsaParameters:
    """Parameters of SUHDSA (symbols of the paper in brackets).

    A window closes when it holds ``tuples`` tuples, carried ones included, of which at least k are new since the last
    close. It also closes when the watermark is ``event_time`` beyond its first new tuple. A tuple without a release is
    carried into the next window until its delay is over. So the delay is at least one window. The default is two
    windows, in the units that bound the window.

    Attributes
    ----------
    tuples : window size in tuples (beta), 1 or more; None: no such bound
    event_time : window size in milliseconds of event time (T_beta), 0 or more; None: no such bound
    delay_tuples : maximum delay in tuples of the shard
    delay_event_time : maximum delay in milliseconds of event time
    distortion_weight : weight of loss against time in the choice of a repair (lambda), 0 to 1
    neighbors : number of nearest groups that a repair inspects (c), 1 or more
    growth_cap : maximum number of subjects in a merged group, in multiples of k (gamma), 2 or more
    output : publish the ``generalization`` of a group as CASTLE does, or its ``representative``
    numeric, categorical : statistics of the representative, in the output and in the search for neighbors
    weights : (name, weight) of quasi-identifiers whose weight in distances differs from 1, 0 or more
    target : controller of l_t; None: l_t is l
    adaptive : controller of the window size; None: the size is fixed
    """

    tuples: int | None = None
    event_time: int | None = None
    delay_tuples: int | None = None
    delay_event_time: int | None = None
    distortion_weight: float = 0.7
    neighbors: int = 3
    growth_cap: float = 3.0
    output: Literal["generalization", "representative"] = "generalization"
    numeric: Literal["mean", "median"] = "mean"
    categorical: Literal["mode", "ancestor"] = "mode"
    weights: Weights = ()
    target: AdaptiveTarget | None = None
    adaptive: AdaptiveWindow | None = None

    def __post_init__(self) -> None:
        if self.tuples is None and self.event_time is None:
            raise PolicyError("suhdsa: give 'tuples', 'event_time', or both; without either none would close")
        if self.delay_tuples is None and self.delay_event_time is None:
            # Set the default once, so that the fields always hold the effective values.
            for name, size in (("delay_tuples", self.tuples), ("delay_event_time", self.event_time)):
                object.__setattr__(self, name, None if size is None else min(2 * size, 2**62))
        for field, value, low in (("tuples", self.tuples, 1), ("event_time", self.event_time, 0)):
            if value is not None and value < low:
                raise PolicyError(f"suhdsa.{field}: must be {low} or more, not {value}")
        for field, delay, size in (
            ("tuples", self.delay_tuples, self.tuples),
            ("event_time", self.delay_event_time, self.event_time),
        ):
            if delay is not None and delay < (size or 0):
                least = "0" if size is None else f"suhdsa.{field} ({size})"
                raise PolicyError(f"suhdsa.delay.{field}: must be {least} or more, not {delay}")
        _require("distortion_weight", self.distortion_weight, 0, 1)
        _require("neighbors", self.neighbors, 1, None)
        _require("growth_cap", self.growth_cap, 2, None)
        require_weights(self.weights, "suhdsa", zero=True)
        if self.target is not None:
            if not 0 < self.target.smoothing <= 1:
                raise PolicyError(f"suhdsa.target.smoothing: must be above 0, up to 1, not {self.target.smoothing}")
            _require("target.band", self.target.band, 0, 1)
            _require("target.dwell", self.target.dwell, 0, None)
        if self.adaptive is not None:
            if self.tuples is None:
                raise PolicyError("suhdsa.adaptive: needs suhdsa.tuples, the largest window")
            _require("adaptive.least", self.adaptive.least, 1, self.tuples)
            _require("adaptive.delay_weight", self.adaptive.delay_weight, 0, 1)
            _require("adaptive.windows", self.adaptive.windows, 1, None)

    def check(self, policy: Policy, privacy: Privacy) -> None:
        """Raise ``PolicyError`` with the first of ``problems``, if there is one."""
        for problem in self.problems(policy, privacy):
            raise PolicyError(problem)

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        if policy.event_time is None:
            # Report one problem only: a window in event time implies a delay in event time.
            if self.event_time is not None:
                yield "suhdsa.event_time: needs a column of the role policy.event_time"
            elif self.delay_event_time is not None:
                yield "suhdsa.delay.event_time: needs a column of the role policy.event_time"
        yield from problems_of_weights(policy, self.weights, "suhdsa")
        if self.target is not None:
            if not policy.sensitive:
                yield "suhdsa.target: needs a sensitive column"
            if problem := _outside("target.most", self.target.most, privacy.l, privacy.k):
                yield problem
        if self.adaptive is not None and self.adaptive.least < privacy.k:
            yield f"suhdsa.adaptive.least: must be k ({privacy.k}) or more, not {self.adaptive.least}"


def _require(field: str, value: float, low: float, high: float | None) -> None:
    if problem := _outside(field, value, low, high):
        raise PolicyError(problem)


def _outside(field: str, value: float, low: float, high: float | None) -> str | None:
    if isfinite(value) and low <= value and (high is None or value <= high):
        return None
    bounds = f"{low} or more" if high is None else f"from {low} to {high}"
    return f"suhdsa.{field}: must be {bounds}, not {value}"
