"""Alternatives near the configured setting that suppress less."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import SHARD_BY_SUBJECT
from crenel.evidence.losses import losses
from crenel.evidence.replay import Replayed, Totals, replay_outputs
from crenel.evidence.sample import Sample, Setting
from crenel.evidence.why.changed import one_level_up, without
from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.load import Config, load
from crenel.jobs.local.sample import Beginning
from crenel.jobs.plan.grid import scaled
from crenel.jobs.plan.point import Point, Written, waits
from crenel.jobs.plan.replays import setting_of

GENERALIZE = "generalize"
_TIMES = (2.0, 4.0)
"""Factors of longer delays to try."""
_MOST = 0.5
"""A remedy must avoid more than this share of the suppressions with a reason."""


@dataclass(frozen=True)
class Remedy:
    """An alternative setting, and the results of its replay.

    Attributes
    ----------
    kind : ``delay``, ``shards``, ``hierarchy``, ``quasi_identifiers``, ``suppression``, ``promise``, ``l`` or ``k``
    change : the change, in the words of a configuration
    column : the quasi-identifier that it concerns; None: none
    weaker : whether it weakens a privacy model
    withheld : tuples that are not published, by reason
    mean_loss : of released tuples, by the configured hierarchies; None where none was released
    losses : mean loss of each remaining quasi-identifier, by the configured hierarchies
    """

    kind: str
    change: str
    column: str | None
    weaker: bool
    totals: Totals
    withheld: Mapping[str, int]
    mean_loss: float | None
    losses: Mapping[str, float | None]


@dataclass(frozen=True)
class Remedies:
    """The configured setting and its alternatives.

    Attributes
    ----------
    configured : its replay
    withheld : of the configured setting, as ``Remedy.withheld``, including tuples published fully generalized
    losses : as of ``Remedy``, of the configured setting
    short : whether the sample is shorter than twice the configured delay, so that its end decided most tuples
    tried : the nearest first; those with the same privacy models precede weaker ones
    impossible : reasons why other changes are invalid, by change
    """

    configured: Replayed
    withheld: Mapping[str, int]
    losses: Mapping[str, float | None]
    short: bool
    tried: tuple[Remedy, ...]
    impossible: Mapping[str, str]

    @property
    def left_out(self) -> dict[str, Remedy]:
        """Remedies that leave out a quasi-identifier, by its name."""
        return {r.column: r for r in self.tried if r.kind == "quasi_identifiers" and r.column is not None}

    def nearest(self, reason: str) -> Remedy | None:
        """Return the nearest remedy that avoids most suppressions with a reason; None without one.

        A remedy must not increase the number of all suppressed tuples. Among omitted quasi-identifiers, and among
        hierarchies, the most effective one counts.
        """
        enough = [remedy for remedy in self.tried if self.saves(remedy, reason) > _MOST]
        if not enough:
            return None
        if enough[0].column is None:
            return enough[0]
        alike = [remedy for remedy in enough if remedy.kind == enough[0].kind]
        return max(alike, key=lambda remedy: self.saves(remedy, reason))

    def saves(self, remedy: Remedy, reason: str) -> float:
        """Return the share of suppressions with a reason that a remedy avoids altogether; 0 or less: none."""
        now = self.withheld[reason]
        fewer = min(now - remedy.withheld.get(reason, 0), sum(self.withheld.values()) - sum(remedy.withheld.values()))
        return fewer / now if now else 0.0


@dataclass(frozen=True)
class Around:
    """A configured setting, as the base of alternatives.

    Attributes
    ----------
    path, overrides : of the configuration
    written : the raw configuration
    """

    path: Path
    overrides: tuple[str, ...]
    written: Written
    beginning: Beginning


def remedies(around: Around, progress: Callable[[int], Callable[[], object]]) -> Remedies:
    """Replay the configured setting and its alternatives; without suppression, only those that omit an attribute.

    ``progress``: called with the number of replays before they begin; its result is called after each.
    """
    sample, config = around.beginning.sample, around.written.config
    setting = setting_of(config, around.beginning.privacy)
    configured = replay_outputs(sample, setting)
    lost = sum(configured.totals.suppressed.values()) > 0
    wanted = list(_changes(around)) if lost else []
    names = [attribute.name for attribute in sample.policy.quasi_identifiers]
    names = names if len(names) > 1 else []
    categories = [attribute.name for attribute in sample.policy.categorical] if lost else []
    done = progress(1 + len(wanted) + len(names) + len(categories))
    done()
    tried: list[Remedy] = []
    impossible: dict[str, str] = {}

    def attempt(remedy: _Change, make: Callable[[], tuple[Sample, Setting] | None]) -> None:
        try:
            made = make()
            if made is not None:
                tried.append(_remedy(remedy, sample, *made))
        except ConfigError as error:
            impossible[remedy.change] = error.problems[0]
        except PolicyError as error:
            impossible[remedy.change] = str(error)
        done()

    for change, point in wanted:
        if change.kind == "delay" and _too_long(sample, point):
            impossible[change.change] = "the sample is shorter than twice of it, and would tell of its end only"
            done()
            continue
        attempt(change, lambda point=point: (sample, _set(around, point)))  # type: ignore[misc]
    for name in categories:
        change = _Change("hierarchy", f"{name} one level up its hierarchy", name)
        attempt(change, lambda name=name: _with(one_level_up(sample, name, setting.shards), setting))  # type: ignore[misc]
    for name in names:
        change = _Change("quasi_identifiers", f"{name} in policy.drop", name)
        attempt(change, lambda name=name: (without(sample, name, setting.shards), setting))  # type: ignore[misc]
    order = ("delay", "shards", "hierarchy", "quasi_identifiers", "suppression", "promise", "l", "k")
    return Remedies(
        configured=configured,
        withheld=configured.totals.suppressed,
        losses=losses(configured.outputs, representative=_representative(setting)),
        short=_too_long(sample, _configured(config)),
        tried=tuple(sorted(tried, key=lambda remedy: order.index(remedy.kind))),
        impossible=impossible,
    )


@dataclass(frozen=True)
class _Change:
    kind: str
    change: str
    column: str | None = None
    weaker: bool = False


def _with(sample: Sample | None, setting: Setting) -> tuple[Sample, Setting] | None:
    return None if sample is None else (sample, setting)


def _representative(setting: Setting) -> bool:
    return setting.algorithm.representative(setting.parameters)


def _too_long(sample: Sample, point: Point) -> bool:
    """Return whether the end of the sample would decide most tuples."""
    tuples = (point.tuples or 0) * point.shards * 2 > len(sample)
    return tuples or (sample.milliseconds > 0 and (point.milliseconds or 0) * 2 > sample.milliseconds)


def _set(around: Around, point: Point) -> Setting:
    config = load(around.path, [*around.overrides, *around.written.overrides(point)])
    return setting_of(config, around.beginning.privacy)


def _remedy(change: _Change, sample: Sample, changed: Sample, setting: Setting) -> Remedy:
    found = replay_outputs(changed, setting)
    withheld, mean = found.totals.suppressed, found.totals.mean_loss
    if change.kind == "suppression":
        withheld = dict.fromkeys(withheld, 0)
    one = _representative(setting)
    of = losses(found.outputs, representative=one)
    if change.kind == "hierarchy" and change.column is not None and mean is not None:
        # The changed attribute is measured by its configured hierarchy; for the others both measures agree.
        configured = losses(found.outputs, policy=sample.policy, representative=one)[change.column]
        own = of[change.column]
        mean = None if configured is None or own is None else mean + (configured - own) / len(of)
        of = {**of, change.column: configured}
    return Remedy(
        kind=change.kind,
        change=change.change,
        column=change.column,
        weaker=change.weaker,
        totals=found.totals,
        withheld=withheld,
        mean_loss=mean,
        losses=of,
    )


def _configured(config: Config) -> Point:
    wait, shards = waits(config.algorithm, config.parameters), config.shards
    return Point(config.algorithm.name, config.privacy.k, config.privacy.l, *wait, shards.count, shards.by)


def _changes(around: Around) -> Iterator[tuple[_Change, Point]]:
    """Yield alternatives to the configured setting, the nearest first."""
    config = around.written.config
    algorithm, now = config.algorithm, _configured(config)
    wait = (now.tuples, now.milliseconds)
    if wait != (None, None):
        for times in _TIMES:
            tuples, milliseconds = scaled(wait, times)
            point = replace(now, tuples=tuples, milliseconds=milliseconds)
            yield _Change("delay", f"a delay of {point.delay}"), point
    if now.shards > 1:
        yield _Change("shards", "shards.count: 1"), replace(now, shards=1, by=SHARD_BY_SUBJECT)
    paths = {setting.path: setting.field for setting in algorithm.settings}
    if "suppression" in paths and getattr(config.parameters, paths["suppression"]) != GENERALIZE:
        name = f"{algorithm.name}.suppression"
        yield _Change("suppression", f"{name}: {GENERALIZE}"), replace(now, further=((name, GENERALIZE),))
    for promise, _ in config.privacy.further:
        name = f"privacy.{promise.name}"
        yield _Change("promise", f"no {name}", weaker=True), replace(now, further=((name, "~"),))
    if config.privacy.l > 1:
        yield _Change("l", f"privacy.l: {config.privacy.l - 1}", weaker=True), replace(now, l=config.privacy.l - 1)
    lower = max(config.privacy.k // 2, config.privacy.l, 2)
    if lower < config.privacy.k:
        yield _Change("k", f"privacy.k: {lower}", weaker=True), replace(now, k=lower)
