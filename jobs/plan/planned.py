"""Planning from a sample and constraints: replay of a grid, choice of a setting, and its neighbors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from crenel.anonymity.model.policy import SHARD_BY_REGIONS, SHARD_BY_SUBJECT
from crenel.anonymity.regions.learn import RegionsError, learn, members_of
from crenel.anonymity.regions.loss import Sample as Values
from crenel.anonymity.regions.sampler import Sampler
from crenel.evidence.choice import Chosen, Figures, Wanted, choose, front
from crenel.evidence.replay import Totals
from crenel.evidence.sample import Sample
from crenel.jobs.config.load import Config, ConfigError, load
from crenel.jobs.config.regions import regions_text
from crenel.jobs.local.sample import Beginning
from crenel.jobs.plan.block import block, pasted
from crenel.jobs.plan.grid import Grid, around, neighbors
from crenel.jobs.plan.options import Bounds, wanted_of
from crenel.jobs.plan.point import Point, Written, waits
from crenel.jobs.plan.replays import Given, Replays
from crenel.state.block import Block

_LEARNED = 20_000
"""Maximum number of tuples to learn regions from, as in ``crenel regions``."""
_ROUNDS = 3
"""Maximum number of rounds in which the search moves from the chosen setting to its neighbors."""
_SLACK = 1.05
"""Tolerance on the configured delay where no maximum is given, because steps do not resolve it more closely."""
_SUPPRESSED = 0.01
"""Maximum suppressed share where no constraint is given, and the configured setting suppresses no more."""


@dataclass(frozen=True)
class Plan:
    """The result of planning.

    Attributes
    ----------
    beginning : the sample
    configured : the configured setting
    wanted : constraints
    figures, totals : of all replayed settings, the nearest to the configured one first
    impossible : reasons why other settings are invalid
    unfit : reasons why algorithms were not tried, by their names
    best : Pareto front among settings with equal k and l
    chosen : the recommended setting, or the nearest where none meets the constraints; None where k and l are too low in
        all
    steps : valid neighbors of the chosen setting, by the name of the dimension
    text : configuration sections of the chosen setting; empty without one
    regions : content of the regions file that the text names; None where it names none
    """

    beginning: Beginning
    configured: Point
    wanted: Wanted
    figures: Mapping[Point, Figures]
    totals: Mapping[Point, Totals]
    impossible: Mapping[Point, str]
    unfit: Mapping[str, str]
    best: set[Point]
    chosen: Chosen[Point] | None
    steps: tuple[tuple[str, Point], ...]
    text: str
    regions: str | None
    written: Written

    @property
    def timed(self) -> bool:
        """Whether delays are milliseconds of event time, and not tuples."""
        return self.beginning.sample.milliseconds > 0


@dataclass(frozen=True)
class Asked:
    """A request for a plan.

    Attributes
    ----------
    path, overrides : of the configuration
    content : the raw configuration
    bounds : constraints
    varied : user-defined dimensions (``crenel.jobs.plan.options.varied``)
    settings : maximum number of replays, beside neighbors of the chosen setting
    regions : name of the regions file in the resulting block
    """

    path: Path
    overrides: tuple[str, ...]
    content: Mapping[str, object]
    bounds: Bounds
    varied: Mapping[str, tuple[str, ...]]
    settings: int
    regions: str


def plan(
    config: Config, asked: Asked, beginning: Beginning, folder: Path, progress: Callable[[int], Callable[[], object]]
) -> Plan:
    """Replay a grid of settings and choose one.

    Parameters
    ----------
    folder : an exclusive folder for regions files
    progress : called with the number of replays before they begin; its result is called after each

    Raises
    ------
    PlanError
        The constraints do not apply to this sample.
    ConfigError
        The configuration of the chosen setting is not valid.
    """
    sample = beginning.sample
    wanted = wanted_of(asked.bounds, config, timed=sample.milliseconds > 0)
    grid = around(config, sample, wanted, asked.varied)
    configured = Point(
        config.algorithm.name,
        config.privacy.k,
        config.privacy.l,
        *waits(config.algorithm, config.parameters),
        config.shards.count,
        config.shards.by if config.shards.count > 1 else SHARD_BY_SUBJECT,
    )
    regions = _Regions(config, sample, folder, asked.content)
    written = Written(config, asked.content, regions.files)
    unfit = {name: problem for name in grid.algorithms if (problem := _unfit(asked, written, grid, name)) is not None}
    grid = replace(grid, algorithms=tuple(name for name in grid.algorithms if name not in unfit))
    points = grid.points(asked.settings)
    given = Given(sample, beginning.privacy, asked.path, asked.overrides)
    with Replays(given, written) as replays:
        regions.learn([configured, *points])
        all_of = list(dict.fromkeys([configured, *points]))
        replays.run(all_of, progress(len(all_of)))
        now = replays.figures.get(configured)
        wanted = _no_worse(wanted, asked.bounds, now)
        chosen = choose(replays.figures, wanted)
        for _ in range(_ROUNDS):
            if chosen is None:
                break
            before, beside = chosen.setting, [point for _, point in neighbors(chosen.setting, grid)]
            regions.learn(beside)
            replays.run(beside, progress(len(beside)))
            chosen = choose(_among(replays.figures, asked, all_of), wanted)
            if chosen is not None and chosen.setting == before:
                break
        figures, totals, impossible = replays.figures, replays.totals, replays.impossible
    steps: list[tuple[str, Point]] = []
    text = ""
    if chosen is not None:
        steps = [(name, point) for name, point in neighbors(chosen.setting, grid) if point in figures]
        text = block(written, chosen.setting, regions.name(chosen.setting, asked.regions))
        pasted(text, written, chosen.setting, asked.path, list(asked.overrides), regions.path(chosen.setting))
    return Plan(
        beginning=beginning,
        configured=configured,
        wanted=wanted,
        figures=figures,
        totals=totals,
        impossible=impossible,
        unfit=unfit,
        best=front(figures),
        chosen=chosen,
        steps=tuple(steps),
        text=text,
        regions=None if chosen is None else regions.text(chosen.setting),
        written=written,
    )


def _unfit(asked: Asked, written: Written, grid: Grid, algorithm: str) -> str | None:
    """Return the reason why an algorithm is incompatible with the configuration; None if it is compatible."""
    if algorithm == written.config.algorithm.name:
        return None
    (point,) = replace(grid, algorithms=(algorithm,), shards=((1, SHARD_BY_SUBJECT),)).points(1) or (None,)
    try:
        load(asked.path, [*asked.overrides, *([] if point is None else written.overrides(point))])
    except ConfigError as error:
        return error.problems[0]
    return None


def _among(figures: Mapping[Point, Figures], asked: Asked, points: Sequence[Point]) -> dict[Point, Figures]:
    """Return the settings that may be recommended; user-defined dimensions exclude all others."""
    return {point: of for point, of in figures.items() if not asked.varied or point in points}


def _no_worse(wanted: Wanted, bounds: Bounds, now: Figures | None) -> Wanted:
    """Derive missing constraints from the configured setting; without any, reduce the loss at no other cost."""
    suppressed = max(_SUPPRESSED, 0.0 if now is None else now.suppressed)
    if bounds.suppressed is None:
        wanted = replace(wanted, suppressed=suppressed)
    if not bounds.given or (bounds.loss is None and bounds.delay is None):
        wanted = replace(wanted, delay=inf if now is None else now.delay * _SLACK)
    return wanted


class _Regions:
    """Regions files, learned from the sample for numbers of regions that the configuration has no file for."""

    def __init__(self, config: Config, sample: Sample, folder: Path, content: Mapping[str, object]) -> None:
        self._config, self._sample, self._folder = config, sample, folder
        self.files: dict[int, str] = {}
        shards = content.get("shards")
        if config.shards.regions is not None and isinstance(shards, dict):
            self.files[config.shards.count] = str(shards["regions"])
        self._learned: dict[int, str] = {}

    def learn(self, points: list[Point]) -> None:
        """Provide a regions file for each number of regions in ``points``, if the sample suffices."""
        for count in sorted({point.shards for point in points if point.by == SHARD_BY_REGIONS} - self.files.keys()):
            members = members_of(self._config.privacy.k)
            try:
                tree = learn(self._sample.policy, self._values(), count, members)
            except RegionsError:
                continue
            self._learned[count] = regions_text(self._sample.policy, tree, len(self._values()), members)
            path = self._folder / f"regions-{count}.yaml"
            path.write_text(self._learned[count], encoding="utf-8")
            self.files[count] = str(path)

    def text(self, point: Point) -> str | None:
        """Return the content of the learned regions file of a point; None if none was learned."""
        return self._learned.get(point.shards) if point.by == SHARD_BY_REGIONS else None

    def name(self, point: Point, learned: str) -> str:
        """Return the name of the regions file in a block."""
        return learned if point.shards in self._learned else self.path(point)

    def path(self, point: Point) -> str:
        return self.files.get(point.shards, "")

    def _values(self) -> Values:
        tuples = self._sample.tuples
        sampler = Sampler(_LEARNED, first=False)
        sampler.add(
            Block(
                shard=0,
                numeric=tuples.numeric,
                categorical=tuples.categorical,
                subject=None,
                sensitive=tuples.sensitive,
                event_time=tuples.event_time,
                members=tuples.members,
            )
        )
        values = sampler.sample
        return values if values is not None else Values(tuples.numeric, tuples.categorical)
