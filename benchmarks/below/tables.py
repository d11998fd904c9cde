"""What each rule loses, and CASTLE with more or fewer clusters."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from benchmarks import core
from benchmarks.below.leave import Result, run
from benchmarks.below.search import Rule
from benchmarks.below.streams import Setting, settings
from benchmarks.table import Table
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.model.privacy import Privacy

RULES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("as it is", {}),
    ("the best group of the next 10 due first", {"ahead": 10}),
    ("the worst group of the next 10 due first", {"ahead": 10, "worst": True}),
    ("early, if better than the best 5 % of recent groups", {"early": 0.05}),
    ("early, if better than the best 25 %", {"early": 0.25}),
    ("the best of groups with three first members", {"starts": 3}),
    ("two members more, the costliest dropped again", {"spare": 2}),
    ("members exchanged while that helps", {"exchange": True}),
    ("rather members who would lose much themselves", {"lonely": 0.5}),
    ("rather older members, by up to tau / k", {"young": 1.0}),
    ("rather older members, by up to 1.5 times", {"patience": 0.5}),
    ("rather older members, by up to 2 times", {"patience": 1.0}),
    ("rather older members, by up to 3 times", {"patience": 2.0}),
    ("whoever lies in the box leaves too", {"along": 1.0}),
    ("the same, if at most 5 % of the delay is left", {"along": 0.05}),
    ("the same, if the group loses less than tau", {"along": 1.0, "along_if_good": True}),
)
"""What rules are called, and what of ``Rule`` is other than it is."""

REUSE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("k - 1, as it is", {}),
    ("0", {"factor": 0.0}),
    ("(k - 1) / 2", {"factor": 0.5}),
    ("2 (k - 1)", {"factor": 2.0}),
    ("k - 1, at a random moment", {"moment": True}),
    ("0, at a random moment", {"moment": True, "factor": 0.0}),
    ("k - 1; kept if it loses no more than tau", {"keep": 1.0}),
    ("k - 1; 100 are kept", {"reuse_limit": 100}),
    ("no reuse", {"reuse_limit": 0}),
)
"""What reuse is weighed by: the factor of what a bad group costs its other members."""

CLUSTERS = (5, 10, 20, 50, 100)

_LIMIT = 1000


def results(setting: Setting, changed: dict[str, Any]) -> list[Result]:
    """One run a seed; a single one where nothing is drawn."""
    rule = Rule(setting.k, setting.l, setting.delay, **{"reuse_limit": _LIMIT, **changed})
    seeds = setting.seeds if setting.shuffled or rule.reuse_limit > 0 else range(1)
    return [run(setting.of(seed), rule, seed) for seed in seeds]


def tables() -> Iterator[Table]:
    """Rules with and without reuse, rules of reuse, and CASTLE."""
    streams = settings()
    header = [setting.name for setting in streams]
    for limit in (_LIMIT, 0):
        what = f"reuse_limit {limit:,}" if limit else "no reuse"
        table = Table(f"Mean loss of nearest release by other rules ({what})", ["rule", *header])
        base: list[float] = []
        for name, changed in RULES:
            losses = [
                fmean(one.loss for one in results(setting, {**changed, "reuse_limit": limit})) for setting in streams
            ]
            base = base or losses
            table.add(name, *(_against(loss, usual) for loss, usual in zip(losses, base, strict=True)))
        yield table
    yield _reuse(streams, header)
    yield _castle(streams, header)


def _reuse(streams: list[Setting], header: list[str]) -> Table:
    table = Table("Mean loss, and share that left by reuse, by the rule of reuse", ["factor", *header])
    for name, changed in REUSE:
        found = [results(setting, changed) for setting in streams]
        table.add(
            name,
            *(f"{fmean(one.loss for one in each):.3f} ({fmean(one.reused for one in each):.0%})" for each in found),
        )
    return table


def _castle(streams: list[Setting], header: list[str]) -> Table:
    table = Table("Mean loss of CASTLE by max_clusters", ["max_clusters", "reuse_limit", *header])
    for limit in (_LIMIT, 0):
        for clusters in CLUSTERS:
            cells = []
            for setting in streams:
                parameters = CastleParameters(setting.delay, delay_jitter=0.0, max_clusters=clusters, reuse_limit=limit)
                privacy = Privacy(setting.k, setting.l)
                found = [core.run(setting.of(seed), privacy, parameters, seed) for seed in setting.seeds]
                cells.append(f"{fmean(one.loss for one in found):.3f} ({fmean(one.suppressed for one in found):.1%})")
            table.add(clusters, f"{limit:,}", *cells)
    return table


def _against(loss: float, usual: float) -> str:
    return f"{loss:.3f}" if loss == usual else f"{loss:.3f} ({loss / usual - 1:+.1%})"
