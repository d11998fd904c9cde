"""What the section ``window`` of a configuration may hold."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from pydantic import model_validator as check

from anonymity.window.parameters import AdaptiveTarget, AdaptiveWindow, WindowParameters
from jobs.config.fields import Column, Duration, Natural, Positive, Real, Section

Share: TypeAlias = Annotated[Real, Field(ge=0, le=1)]
Weight: TypeAlias = Annotated[Real, Field(ge=0)]


class WindowDelaySection(Section):
    tuples: Natural | None = Field(None, description="how many later tuples one may wait for, window.tuples or more")
    event_time: Duration | None = Field(
        None, description="a duration such as '20 s', window.event_time or more, or whole milliseconds"
    )


class TargetSection(Section):
    most: Positive = Field(description="a whole number from privacy.l to privacy.k")
    smoothing: Annotated[Real, Field(gt=0, le=1)] = Field(
        AdaptiveTarget.smoothing, description="a number above 0 and at most 1"
    )
    band: Share = Field(AdaptiveTarget.band, description="a number from 0 to 1")
    dwell: Natural = Field(AdaptiveTarget.dwell, description="a whole number, 0 or more")

    def core(self) -> AdaptiveTarget:
        return AdaptiveTarget(self.most, self.smoothing, self.band, self.dwell)


class AdaptiveSection(Section):
    least: Positive = Field(description="a whole number from privacy.k to window.tuples")
    delay_weight: Share = Field(AdaptiveWindow.delay_weight, description="a number from 0 to 1")
    windows: Positive = Field(AdaptiveWindow.windows, description="a whole number, 1 or more")

    def core(self) -> AdaptiveWindow:
        return AdaptiveWindow(self.least, self.delay_weight, self.windows)


class WindowSection(Section):
    tuples: Positive | None = Field(None, description="a whole number, 1 or more, or null where event time closes it")
    event_time: Duration | None = Field(
        None, description="a duration such as '10 s', or null where a number of tuples closes it"
    )
    delay: WindowDelaySection | None = Field(
        None, description="{tuples: 100}, {event_time: 20 s}, or both, or null for two windows"
    )
    distortion_weight: Share = Field(WindowParameters.distortion_weight, description="a number from 0 to 1")
    neighbours: Positive = Field(WindowParameters.neighbours, description="a whole number, 1 or more")
    growth_cap: Annotated[Real, Field(ge=2)] = Field(WindowParameters.growth_cap, description="a number, 2 or more")
    output: Literal["generalisation", "representative"] = Field(
        "generalisation", description="'generalisation' or 'representative'"
    )
    numeric: Literal["mean", "median"] = Field("mean", description="'mean' or 'median'")
    categorical: Literal["mode", "ancestor"] = Field("mode", description="'mode' or 'ancestor'")
    weights: dict[Column, Weight] = Field(
        {}, description="a mapping of quasi-identifiers to numbers, 0 or more, such as {age: 2}"
    )
    target: TargetSection | None = Field(None, description="a mapping such as {most: 5}, or null to keep it at l")
    adaptive: AdaptiveSection | None = Field(
        None, description="a mapping such as {least: 20}, or null to keep the window's size"
    )

    @check(mode="after")
    def _possible(self) -> WindowSection:
        self.core()
        return self

    def core(self) -> WindowParameters:
        """The parameters; raises ``PolicyError`` where they contradict each other."""
        delay = self.delay or WindowDelaySection()
        return WindowParameters(
            tuples=self.tuples,
            event_time=self.event_time,
            delay_tuples=delay.tuples,
            delay_event_time=delay.event_time,
            distortion_weight=self.distortion_weight,
            neighbours=self.neighbours,
            growth_cap=self.growth_cap,
            output=self.output,
            numeric=self.numeric,
            categorical=self.categorical,
            weights=tuple(self.weights.items()),
            target=None if self.target is None else self.target.core(),
            adaptive=None if self.adaptive is None else self.adaptive.core(),
        )
