"""Alternatives near the configured setting that suppress less."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from crenel.anonymity.algorithm import REPAIRS
from crenel.anonymity.model.attributes import Presence
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import SHARD_BY_SUBJECT
from crenel.evidence.losses import losses
from crenel.evidence.plan.grid import scaled
from crenel.evidence.plan.point import Point
from crenel.evidence.plan.replays import Make, Progress
from crenel.evidence.replay import Replayed, Totals, replay_outputs
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.evidence.why.changed import one_level_up, without

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
    kind : ``delay``, ``shards``, ``hierarchy``, ``quasi_identifiers``, ``suppression``, ``model``, ``l`` or ``k``
    change : the change, in the words of a configuration
    column : the quasi-identifier that it concerns; None: none
    is_weaker : whether it weakens a privacy model
    suppressed : tuples that are not published, by reason
    mean_loss : of released tuples, by the configured hierarchies; None where none was released
    losses : mean loss of each remaining quasi-identifier, by the configured hierarchies
    """

    kind: str
    change: str
    column: str | None
    is_weaker: bool
    totals: Totals
    suppressed: Mapping[str, int]
    mean_loss: float | None
    losses: Mapping[str, float | None]


@dataclass(frozen=True)
class Remedies:
    """The configured setting and its alternatives.

    Attributes
    ----------
    configured : its replay
    suppressed : of the configured setting, as ``Remedy.suppressed``, including tuples published fully generalized
    losses : as of ``Remedy``, of the configured setting
    is_short : whether the sample is shorter than twice the configured delay, so that its end decided most tuples
    tried : the nearest first; those with the same privacy models precede weaker ones
    impossible : reasons why other changes are invalid, by change
    """

    configured: Replayed
    suppressed: Mapping[str, int]
    losses: Mapping[str, float | None]
    is_short: bool
    tried: tuple[Remedy, ...]
    impossible: Mapping[str, str]

    @property
    def omitted(self) -> dict[str, Remedy]:
        """Remedies that omit a quasi-identifier, by its name."""
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
        now = self.suppressed[reason]
        fewer = min(
            now - remedy.suppressed.get(reason, 0), sum(self.suppressed.values()) - sum(remedy.suppressed.values())
        )
        return fewer / now if now else 0.0


@dataclass(frozen=True)
class _Change:
    kind: str
    change: str
    column: str | None = None
    weaker: bool = False


def remedies(sample: Sample, setting: ReplaySetting, make: Callable[[Point], Make], progress: Progress) -> Remedies:
    """Replay a configured setting and its alternatives; without suppression, only those that omit an attribute.

    Parameters
    ----------
    make : returns a function that makes the setting of a point as the configuration would; raises ``PolicyError``
    progress : called with the number of replays before they begin; its result is called after each
    """
    # Tuples are grouped by the loss of intervals and ancestors, whatever form their classes are published in.
    sample = replace(sample, policy=sample.policy.without_forms)
    configured = replay_outputs(sample, replace(setting, logs=setting.algorithm.logs((REPAIRS,))))
    lost = sum(configured.totals.suppressed.values()) > 0
    points = list(_changes(setting)) if lost else []
    names = [a.name for a in sample.policy.attributes if not isinstance(a, Presence)]
    names = names if len(names) > 1 else []
    categories = [name for name in names if name in {a.name for a in sample.policy.categorical}] if lost else []
    done = progress(1 + len(points) + len(names) + len(categories))
    done()
    tried: list[Remedy] = []
    impossible: dict[str, str] = {}

    def attempt(change: _Change, changed: Callable[[], Sample | None], make: Make) -> None:
        try:
            if (other := changed()) is not None:
                tried.append(_remedy(change, sample, other, make()))
        except PolicyError as error:
            impossible[change.change] = str(error)
        done()

    for change, point in points:
        if change.kind == "delay" and _too_long(sample, point):
            impossible[change.change] = (
                "the sample is shorter than twice this delay, so its end would decide most tuples"
            )
            done()
        else:
            attempt(change, lambda: sample, lambda point=point: make(point)())  # type: ignore[misc]
    for name in categories:
        change = _Change("hierarchy", f"{name} one level up its hierarchy", name)
        attempt(change, partial(one_level_up, sample, name, setting.shards), lambda: setting)
    for name in names:
        change = _Change("quasi_identifiers", f"{name} in policy.drop", name)
        attempt(change, partial(without, sample, name, setting.shards), lambda: setting)
    order = ("delay", "shards", "hierarchy", "quasi_identifiers", "suppression", "model", "l", "k")
    return Remedies(
        configured=configured,
        suppressed=configured.totals.suppressed,
        losses=losses(configured.outputs, representative=_representative(setting)),
        is_short=_too_long(sample, Point.of(setting)),
        tried=tuple(sorted(tried, key=lambda remedy: order.index(remedy.kind))),
        impossible=impossible,
    )


def _representative(setting: ReplaySetting) -> bool:
    return setting.algorithm.has_representative


def _too_long(sample: Sample, point: Point) -> bool:
    """Return whether the end of the sample would decide most tuples."""
    tuples = (point.tuples or 0) * point.shards * 2 > len(sample)
    return tuples or (sample.milliseconds > 0 and (point.milliseconds or 0) * 2 > sample.milliseconds)


def _remedy(change: _Change, sample: Sample, changed: Sample, setting: ReplaySetting) -> Remedy:
    replayed = replay_outputs(changed, setting)
    suppressed, mean = replayed.totals.suppressed, replayed.totals.mean_loss
    if change.kind == "suppression":
        suppressed = dict.fromkeys(suppressed, 0)
    one = _representative(setting)
    mean_losses = losses(replayed.outputs, representative=one)
    if change.kind == "hierarchy" and change.column is not None and mean is not None:
        # The changed attribute is measured by its configured hierarchy; for the others both measures agree.
        configured = losses(replayed.outputs, policy=sample.policy, representative=one)[change.column]
        own = mean_losses[change.column]
        mean = None if configured is None or own is None else mean + (configured - own) / len(mean_losses)
        mean_losses = {**mean_losses, change.column: configured}
    return Remedy(
        kind=change.kind,
        change=change.change,
        column=change.column,
        is_weaker=change.weaker,
        totals=replayed.totals,
        suppressed=suppressed,
        mean_loss=mean,
        losses=mean_losses,
    )


def _changes(setting: ReplaySetting) -> Iterator[tuple[_Change, Point]]:
    """Yield alternatives to the configured setting, the nearest first."""
    algorithm, privacy, now = setting.algorithm, setting.privacy, Point.of(setting)
    wait = (now.tuples, now.milliseconds)
    if wait != (None, None):
        for times in _TIMES:
            tuples, milliseconds = scaled(wait, times)
            point = replace(now, tuples=tuples, milliseconds=milliseconds)
            yield _Change("delay", f"a delay of {point.delay}"), point
    if now.shards > 1:
        yield _Change("shards", "shards.count: 1"), replace(now, shards=1, by=SHARD_BY_SUBJECT)
    if getattr(algorithm, "suppression", GENERALIZE) != GENERALIZE:
        name = f"{algorithm.name}.suppression"
        yield _Change("suppression", f"{name}: {GENERALIZE}"), replace(now, further=((name, GENERALIZE),))
    for model, _ in privacy.further:
        name = f"privacy.{model.name}"
        yield _Change("model", f"no {name}", weaker=True), replace(now, further=((name, "~"),))
    if privacy.l > 1:
        yield _Change("l", f"privacy.l: {privacy.l - 1}", weaker=True), replace(now, l=privacy.l - 1)
    lower = max(privacy.k // 2, privacy.l, 2)
    if lower < privacy.k:
        yield _Change("k", f"privacy.k: {lower}", weaker=True), replace(now, k=lower)
