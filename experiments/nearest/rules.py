"""Loss of nearest by alternative rules, and of CASTLE by number of clusters."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from crenel.anonymity.algorithms.castle.algorithm import CastleParameters
from crenel.anonymity.builtin import CASTLE
from crenel.anonymity.model.privacy import Privacy
from experiments.harness import Table, in_processes, replay
from experiments.nearest.prototype import Result, Rule, run
from experiments.nearest.streams import Setting, settings

RULES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("default", {}),
    ("release the best group of the next 10 due first", {"lookahead": 10}),
    ("release the worst group of the next 10 due first", {"lookahead": 10, "worst_first": True}),
    ("release early, if in the best 5 % of recent groups", {"early_share": 0.05}),
    ("release early, if in the best 25 %", {"early_share": 0.25}),
    ("the best of groups with three different first members", {"initial_members": 3}),
    ("two spare members, the most expensive dropped", {"spare_members": 2}),
    ("exchange members while that lowers the loss", {"exchange": True}),
    ("prefer isolated members", {"isolation_bonus": 0.5}),
    ("prefer older members, by up to tau / k", {"age_cost": 1.0}),
    ("prefer older members, by up to 1.5 times", {"age_weight": 0.5}),
    ("prefer older members, by up to 2 times", {"age_weight": 1.0}),
    ("prefer older members, by up to 3 times", {"age_weight": 2.0}),
    (
        "price of lonely members near their deadline 0.65, and older members by up to 2 times",
        {"price": 0.65, "age_weight": 1.0},
    ),
    ("the same with a price of 0.4", {"price": 0.4, "age_weight": 1.0}),
    (
        "the price of 0.65, with groups from the 4 k nearest and the 64 of the highest price",
        {"price": 0.65, "age_weight": 1.0, "candidates": 4, "priced": 64},
    ),
    (
        "the same, with radii from the 256 youngest tuples (third nearest)",
        {"price": 0.65, "age_weight": 1.0, "candidates": 4, "priced": 64, "sample": 256, "neighbors": 3},
    ),
    (
        "a price of 0.55, older members by up to 1.5 times, radii from the 256 youngest tuples (sixth nearest), and "
        "groups from the max(100, 8 k) of the lowest cost",
        {"price": 0.55, "age_weight": 0.5, "cheapest": 8, "sample": 256, "neighbors": 6},
    ),
    (
        "the same, with radii that stay as measured on arrival",
        {"price": 0.55, "age_weight": 0.5, "cheapest": 8, "sample": 256, "neighbors": 6, "updates": False},
    ),
    (
        "the price of 0.65, and tuples in the box with at most 5 % of the delay remaining join",
        {"price": 0.65, "age_weight": 1.0, "include_contained": 0.05},
    ),
    (
        "a price learned by region: 1.0 times what groups of due tuples there lost above tau",
        {"price": 1.0, "age_weight": 1.0, "learned": 1},
    ),
    ("the same, learned by radius", {"price": 1.0, "age_weight": 1.0, "learned": 2}),
    (
        "the price of 0.65, by beam search with four partial groups among the max(100, 8 k) of the lowest cost",
        {"price": 0.65, "age_weight": 1.0, "beam": 4, "cheapest": 8},
    ),
    ("the same beam search without a price", {"beam": 4, "cheapest": 8}),
    ("the part of a partition of all buffered tuples, made after each 100 arrivals", {"parts": 100}),
    ("include all tuples in the box", {"include_contained": 1.0}),
    ("the same, with at most 5 % of the delay remaining", {"include_contained": 0.05}),
    ("the same, if the loss of the group is below tau", {"include_contained": 1.0, "include_if_good": True}),
)
"""Names of the rules, and the changed fields of ``Rule``."""

REUSE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("k - 1 (default)", {}),
    ("0", {"reuse_factor": 0.0}),
    ("(k - 1) / 2", {"reuse_factor": 0.5}),
    ("2 (k - 1)", {"reuse_factor": 2.0}),
    ("k - 1, at a random moment", {"random_moment": True}),
    ("0, at a random moment", {"random_moment": True, "reuse_factor": 0.0}),
    ("k - 1; kept if its loss is at most tau", {"keep_threshold": 1.0}),
    ("k - 1; reuse_limit 100", {"reuse_limit": 100}),
    ("no reuse", {"reuse_limit": 0}),
)
"""Weights of reuse: factors of the cost of a bad group for its other members."""

CLUSTERS = (5, 10, 20, 50, 100)

_LIMIT = 1000


def results() -> Iterator[Table]:
    """Yield the loss by rule with and without reuse, by rule of reuse, and of CASTLE."""
    streams = settings()
    for limit in (_LIMIT, 0):
        what = f"with a reuse_limit of {limit:,}" if limit else "without reuse"
        yield _rules(streams, limit, f"Mean loss by alternative rules, {what}")
    yield _reuse(streams)
    yield _castle(streams)


def _runs(settings: list[Setting], changes: list[dict[str, Any]]) -> list[list[list[Result]]]:
    """Return the runs of each change in each setting, one per seed; a single one without randomness."""
    given = []
    for changed in changes:
        for setting in settings:
            rule = Rule(setting.k, setting.l, setting.delay, **{"reuse_limit": _LIMIT, **changed})
            drawn = setting.shuffled or rule.reuse_limit > 0
            given.append([(setting, rule, seed) for seed in (setting.seeds if drawn else range(1))])
    found = in_processes(_run, [one for each in given for one in each])
    runs = [[next(found) for _ in each] for each in given]
    return [runs[at : at + len(settings)] for at in range(0, len(runs), len(settings))]


def _run(given: tuple[Setting, Rule, int]) -> Result:
    setting, rule, seed = given
    return run(setting.of(seed), rule, seed)


def _rules(streams: list[Setting], limit: int, title: str) -> Table:
    table = Table(title, ["rule", *(setting.name for setting in streams)])
    base: list[float] = []
    changes = [{**changed, "reuse_limit": limit} for _, changed in RULES]
    for (name, _), found in zip(RULES, _runs(streams, changes), strict=True):
        losses = [fmean(one.loss for one in each) for each in found]
        base = base or losses
        table.add(name, *(_against(loss, usual) for loss, usual in zip(losses, base, strict=True)))
    return table


def _reuse(streams: list[Setting]) -> Table:
    table = Table(
        "Mean loss, and share of singleton releases, by the rule of reuse",
        ["factor", *(setting.name for setting in streams)],
    )
    for (name, _), found in zip(REUSE, _runs(streams, [changed for _, changed in REUSE]), strict=True):
        table.add(
            name,
            *(f"{fmean(one.loss for one in each):.3f} ({fmean(one.reused for one in each):.0%})" for each in found),
        )
    return table


def _castle(streams: list[Setting]) -> Table:
    table = Table(
        "Mean loss of CASTLE by max_clusters (suppressed)",
        ["max_clusters", "reuse_limit", *(setting.name for setting in streams)],
    )
    rows = [(limit, clusters) for limit in (_LIMIT, 0) for clusters in CLUSTERS]
    found = in_processes(
        _castle_run,
        [
            (setting, CastleParameters(setting.delay, max_clusters=clusters, reuse_limit=limit), seed)
            for limit, clusters in rows
            for setting in streams
            for seed in setting.seeds
        ],
    )
    for limit, clusters in rows:
        cells = []
        for setting in streams:
            runs = [next(found) for _ in setting.seeds]
            cells.append(f"{fmean(loss for loss, _ in runs):.3f} ({fmean(suppressed for _, suppressed in runs):.1%})")
        table.add(clusters, f"{limit:,}", *cells)
    return table


def _castle_run(given: tuple[Setting, CastleParameters, int]) -> tuple[float, float]:
    setting, parameters, seed = given
    found = replay(setting.of(seed), CASTLE, Privacy(setting.k, setting.l), parameters, seed)
    return found.loss, found.suppressed


def _against(loss: float, usual: float) -> str:
    return f"{loss:.3f}" if loss == usual else f"{loss:.3f} ({loss / usual - 1:+.1%})"
