"""How windows work: the parameters of l-diversity-enhanced SUHDSA and of what it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy


@dataclass(frozen=True)
class AdaptiveTarget:
    """The entropy-driven target l_t (SUHDSA, Appendix B; symbols in brackets).

    Attributes
    ----------
    most : largest target (l_max), from l to k; the smallest is the l that every release promises
    smoothing : weight of the newest window's entropy (alpha), above 0 to 1
    band : least change of the normalized entropy that moves the target (hysteresis), 0 to 1
    dwell : windows for which a target stays at least, 0 or more
    """

    most: int
    smoothing: float = 0.3
    band: float = 0.05
    dwell: int = 5


@dataclass(frozen=True)
class AdaptiveWindow:
    """A window size that weighs delay against loss (UBDSA's rule, as SUHDSA, Table 1 quotes it).

    Attributes
    ----------
    least : smallest window in tuples, k or more; the largest is ``WindowParameters.tuples``
    delay_weight : what the mean delay weighs against the mean loss, 0 to 1
    windows : how many windows are judged together before the size moves, 1 or more
    """

    least: int
    delay_weight: float = 0.5
    windows: int = 8


@dataclass(frozen=True)
class WindowParameters:
    """How windows work (symbols of the paper in brackets).

    A window closes when it holds ``tuples`` tuples, carried ones among them, at least k of which came since the last
    close; or when event time has passed ``event_time`` beyond the first tuple that came since. A tuple that finds no
    release is carried into the next window until its delay is over. So the delay is at least one window; where none
    is given it is two, by the bounds that the window has.

    Attributes
    ----------
    tuples : window size in tuples (beta), 1 or more; None: no such bound
    event_time : window size in milliseconds of event time (T_beta), 0 or more; None: no such bound
    delay_tuples : how many later tuples of its shard a tuple may wait for
    delay_event_time : how long a tuple may wait, milliseconds of event time
    distortion_weight : what loss weighs against time in the choice of a repair (lambda), 0 to 1
    neighbors : nearest groups that a repair looks at (c), 1 or more
    growth_cap : a merged group has at most so many times k subjects (gamma), 2 or more
    output : publish the ``generalization`` of a group as CASTLE does, or its ``representative``
    numeric, categorical : what represents a group, there and in the search for neighbors
    weights : (name, weight) of quasi-identifiers that count otherwise than 1 in distances, 0 or more
    target : how l_t moves; None: it is l
    adaptive : how the window size moves; None: it stays
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
    weights: tuple[tuple[str, float], ...] = ()
    target: AdaptiveTarget | None = None
    adaptive: AdaptiveWindow | None = None

    def __post_init__(self) -> None:
        if self.tuples is None and self.event_time is None:
            raise PolicyError("suhdsa: give 'tuples', 'event_time', or both; without either none would close")
        if self.delay_tuples is None and self.delay_event_time is None:
            # Set once, here: the fields say what holds.
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
        for name, weight in self.weights:
            _require(f"weights.{name}", weight, 0, None)
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
        """Raise ``PolicyError`` with the first of ``problems``, where there is one."""
        for problem in self.problems(policy, privacy):
            raise PolicyError(problem)

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """What does not go with a policy, each with its field and what would be valid."""
        if policy.event_time is None:
            # One of them: a window in event time has a delay in event time, given or not.
            if self.event_time is not None:
                yield "suhdsa.event_time: needs a column of the role policy.event_time"
            elif self.delay_event_time is not None:
                yield "suhdsa.delay.event_time: needs a column of the role policy.event_time"
        names = {attribute.name for attribute in policy.quasi_identifiers}
        for name, _ in self.weights:
            if name not in names:
                yield f"suhdsa.weights.{name}: must be one of {', '.join(sorted(names))}"
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
