"""Planning from a sample and constraints: replay of a grid, choice of a setting, and its neighbors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from crenel.anonymity.model.durations import MINUTE
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import SHARD_BY_REGIONS, SHARD_BY_SUBJECT, Policy
from crenel.anonymity.model.region_tree import RegionTree
from crenel.anonymity.regions.learn import RegionsError, Sampler, learn, members_of
from crenel.anonymity.regions.loss import EncodedSample
from crenel.evidence.plan.choice import Chosen, Figures, Wanted, choose, front
from crenel.evidence.plan.grid import Grid, around, neighbors
from crenel.evidence.plan.point import Point
from crenel.evidence.plan.replays import Make, Progress, Replays, Starting
from crenel.evidence.replay import Totals
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.state.block import Block, TupleColumns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEARNED = 20_000
"""Maximum number of tuples to learn regions from, as in ``crenel regions``."""
_ROUNDS = 3
"""Maximum number of rounds in which the search moves from the chosen setting to its neighbors."""
_SLACK = 1.05
"""Tolerance on the configured delay where no maximum is given, because steps do not resolve it more closely."""
_SUPPRESSED = 0.01
"""Maximum suppressed share where no constraint is given, and the configured setting suppresses no more."""


@dataclass(frozen=True)
class Limits:
    """Constraints on a plan; None: no constraint.

    Attributes
    ----------
    loss : maximum mean loss, 0 to 1
    delay : maximum p99 of the delay, in milliseconds of event time, or in tuples of a sample without event time
    suppressed : maximum suppressed share, 0 to 1
    k : minimum, also below the configured one; None: the configured one
    """

    loss: float | None = None
    delay: float | None = None
    suppressed: float | None = None
    k: int | None = None

    def wanted(self, setting: ReplaySetting) -> Wanted:
        """Return the constraints on a setting; l is at least the configured one."""
        return Wanted(
            loss=1.0 if self.loss is None else self.loss,
            suppressed=1.0 if self.suppressed is None else self.suppressed,
            delay=inf if self.delay is None else self.delay,
            k=setting.privacy.k if self.k is None else self.k,
            l=setting.privacy.l,
            sooner=self.loss is not None and self.delay is None,
        )


@dataclass(frozen=True)
class Request:
    """A request for a plan.

    Attributes
    ----------
    sample : to replay
    setting : the configured one
    limits : constraints
    varied : user-defined values by the name of a dimension of ``crenel.evidence.plan.grid.Grid``, or by a dotted field
    replays : maximum number of replays, beside neighbors of the chosen setting
    """

    sample: Sample
    setting: ReplaySetting
    limits: Limits
    varied: Mapping[str, tuple[Any, ...]]
    replays: int


class Configuration(Protocol):
    """Conversion of points to settings, as the configuration of a job makes them."""

    @property
    def learns_regions(self) -> bool:
        """Whether regions may be learned from the sample."""

    def make(self, point: Point) -> Make:
        """Return a function that makes the setting of a point; raise ``PolicyError`` if the point is impossible."""

    def has_regions(self, count: int) -> bool:
        """Return whether points with this number of regions are possible."""

    def add_regions(self, policy: Policy, tree: RegionTree, rows: int, members: int) -> None:
        """Make points with as many regions as a tree possible; parameters as of ``learn`` and ``members_of``."""


@dataclass(frozen=True)
class PlanResult:
    """The result of planning.

    Attributes
    ----------
    sample : the replayed tuples
    configured : the configured setting
    wanted : constraints
    figures, totals : of all replayed settings, the nearest to the configured one first
    impossible : reasons why other settings are invalid
    unfit : reasons why algorithms were not tried, by their names
    best : Pareto front among settings with equal k and l
    chosen : the recommended setting, or the nearest where none meets the constraints; None where k and l are too low in
        all
    steps : valid neighbors of the chosen setting, by the name of the dimension
    """

    sample: Sample
    configured: Point
    wanted: Wanted
    figures: Mapping[Point, Figures]
    totals: Mapping[Point, Totals]
    impossible: Mapping[Point, str]
    unfit: Mapping[str, str]
    best: set[Point]
    chosen: Chosen[Point] | None
    steps: tuple[tuple[str, Point], ...]

    @property
    def timed(self) -> bool:
        """Whether delays are milliseconds of event time, and not tuples."""
        return self.sample.milliseconds > 0

    @property
    def meets(self) -> bool:
        """Whether the chosen setting meets the constraints."""
        return self.chosen is not None and not self.chosen.missed

    def to_dict(self) -> dict[str, Any]:
        """Return the sample's size, the constraints, the settings and the choice as plain values."""
        chosen = self.chosen
        return {
            "sample": {
                "tuples": len(self.sample),
                "rejected": len(self.sample.rejected.column),
                "minutes": self.sample.milliseconds / MINUTE if self.timed else None,
            },
            "delay_in": "milliseconds" if self.timed else "tuples",
            "wanted": {name: None if value == inf else value for name, value in vars(self.wanted).items()},
            "settings": [self._row(point) for point in self.figures],
            "impossible": len(self.impossible),
            "meets": self.meets,
            "chosen": None if chosen is None else self._row(chosen.setting),
            "missed": {} if chosen is None else {name: None if by == inf else by for name, by in chosen.missed.items()},
            "steps": [{"dimension": name, **self._row(point)} for name, point in self.steps],
        }

    def to_arrow(self) -> pa.Table:
        """Return one row per replayed setting, with its cost, and whether it is configured, chosen or on the front."""
        chosen = None if self.chosen is None else self.chosen.setting
        rows = [
            {**self._row(point), "is_configured": point == self.configured, "is_chosen": point == chosen}
            for point in self.figures
        ]
        reasons = list(dict.fromkeys(reason for totals in self.totals.values() for reason in totals.suppressed))
        for row in rows:
            by_reason = row.pop("suppressed_by_reason")
            row |= {f"suppressed_{reason}": by_reason.get(reason, 0) for reason in reasons}
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pa.table({name: pa.array([row.get(name) for row in rows], _KINDS.get(name)) for name in names})

    def figure(self) -> Figure:
        """Return the loss, suppression and delay of the settings as a picture.

        Raises
        ------
        ModuleNotFoundError
            matplotlib is not installed.
        """
        from crenel.evidence.figures import plan_figure

        return plan_figure(self)

    def _row(self, point: Point) -> dict[str, Any]:
        totals, costs = self.totals[point], self.figures[point]
        return {
            "algorithm": point.algorithm,
            "k": point.k,
            "l": point.l,
            "delay_tuples": point.tuples,
            "delay_event_time_ms": point.milliseconds,
            "shards": point.shards,
            "by": point.by,
            **dict(point.further),
            "mean_loss": totals.mean_loss,
            "suppressed": totals.share_suppressed,
            "suppressed_by_reason": totals.suppressed,
            "delay_p50": None if costs.middle == inf else costs.middle,
            "delay_p99": None if costs.delay == inf else costs.delay,
            "releases": sum(totals.releases.values()),
            "fewest_subjects": totals.fewest_subjects,
            "on_front": point in self.best,
        }


_KINDS = {
    **dict.fromkeys(("delay_tuples", "delay_event_time_ms", "fewest_subjects"), pa.int64()),
    **dict.fromkeys(("mean_loss", "delay_p50", "delay_p99"), pa.float64()),
}
"""Types of the columns of ``Plan.to_arrow`` that may hold nothing but nulls."""


def plan(
    request: Request,
    configuration: Configuration,
    progress: Progress,
    starting: Starting = nullcontext,
    processes: int | None = None,
) -> PlanResult:
    """Replay a grid of settings and choose one.

    Parameters
    ----------
    progress : called with the number of replays before they begin; its result is called after each
    starting : context in which processes start
    processes : as of ``Replays``
    """
    sample, limits = request.sample, request.limits
    wanted = limits.wanted(request.setting)
    grid = around(request.setting, sample, wanted, request.varied)
    configured = Point.of(request.setting)
    unfit = {name: problem for name in grid.algorithms if (problem := _unfit(request, configuration, grid, name))}
    grid = replace(grid, algorithms=tuple(name for name in grid.algorithms if name not in unfit))
    points = grid.points(request.replays)
    with Replays(sample, configuration.make, starting, processes) as replays:
        all_of = list(dict.fromkeys([configured, *points]))
        _learn(request, configuration, all_of)
        replays.run(all_of, progress(len(all_of)))
        wanted = _no_worse(wanted, limits, replays.figures.get(configured))
        chosen = choose(replays.figures, wanted)
        for _ in range(_ROUNDS):
            if chosen is None:
                break
            before, beside = chosen.setting, [point for _, point in neighbors(chosen.setting, grid)]
            _learn(request, configuration, beside)
            replays.run(beside, progress(len(beside)))
            chosen = choose(_among(replays.figures, request, all_of), wanted)
            if chosen is not None and chosen.setting == before:
                break
        figures, totals, impossible = replays.figures, replays.totals, replays.impossible
    steps = () if chosen is None else neighbors(chosen.setting, grid)
    return PlanResult(
        sample=sample,
        configured=configured,
        wanted=wanted,
        figures=figures,
        totals=totals,
        impossible=impossible,
        unfit=unfit,
        best=front(figures),
        chosen=chosen,
        steps=tuple((name, point) for name, point in steps if point in figures),
    )


def _unfit(request: Request, configuration: Configuration, grid: Grid, algorithm: str) -> str | None:
    """Return the reason why an algorithm is incompatible with the configuration; None if it is compatible."""
    if algorithm == request.setting.algorithm.name:
        return None
    try:
        for point in replace(grid, algorithms=(algorithm,), shards=((1, SHARD_BY_SUBJECT),)).points(1):
            configuration.make(point)()
    except PolicyError as error:
        return str(error)
    return None


def _among(figures: Mapping[Point, Figures], request: Request, points: Sequence[Point]) -> dict[Point, Figures]:
    """Return the settings that may be recommended; user-defined dimensions exclude all others."""
    return {point: result for point, result in figures.items() if not request.varied or point in points}


def _no_worse(wanted: Wanted, limits: Limits, now: Figures | None) -> Wanted:
    """Derive missing constraints from the configured setting; without any, reduce the loss at no other cost."""
    suppressed = max(_SUPPRESSED, 0.0 if now is None else now.suppressed)
    if limits.suppressed is None:
        wanted = replace(wanted, suppressed=suppressed)
    if limits.loss is None and limits.delay is None:
        wanted = replace(wanted, delay=inf if now is None else now.delay * _SLACK)
    return wanted


def _learn(request: Request, configuration: Configuration, points: Sequence[Point]) -> None:
    """Learn regions for each number of regions that the configuration has none for, if the sample suffices."""
    if not configuration.learns_regions:
        return
    counts = {point.shards for point in points if point.by == SHARD_BY_REGIONS}
    for count in sorted(count for count in counts if not configuration.has_regions(count)):
        values, members = _values(request.sample), members_of(request.setting.privacy.k)
        try:
            tree = learn(request.sample.policy, values, count, members)
        except RegionsError:
            continue
        configuration.add_regions(request.sample.policy, tree, len(values), members)


def _values(sample: Sample) -> EncodedSample:
    """Return the tuples to learn regions from."""
    sampler = Sampler(_LEARNED, first=False)
    columns = {column.name: getattr(sample.tuples, column.name) for column in fields(TupleColumns)}
    sampler.add(Block(shard=0, **columns | {"subject": None}))
    return sampler.sample or EncodedSample(sample.tuples.numeric, sample.tuples.categorical)
