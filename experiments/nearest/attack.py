"""An attacker who guesses the release of a person: whether the price of isolation tells more than the plain rule.

The attacker knows a person's quasi-identifiers and the arrival of its tuple, all releases with their boxes and moments,
and how often tuples of the same kind were released at each age. The strongest attacker also knows the radius, as if
it knew all other tuples. A correct guess finds the release, and not the row among its k or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import NONE
from experiments.harness import Stream, Table, in_processes
from experiments.nearest.streams import StreamSetting, settings
from experiments.timing import inside

_PRICE = 0.55
_RULES = (("default", 0.0), (f"isolation_price {_PRICE}", _PRICE))
_TARGETS = 2000
"""Maximum number of persons whose releases are guessed; as many others are learned from."""

_AGES, _LOSSES, _RADII = 10, 5, 5
"""Numbers of classes of age, of loss, and of radius that the attacker tells apart."""

_BLOCK = 20
"""Number of arrivals after which radii are read."""


@dataclass(frozen=True)
class Run:
    """A run of nearest without reuse.

    Attributes
    ----------
    tuples, delay : the stream, and the delay in tuples
    releases : all of them
    release : (tuples,) index of its release, ``NONE`` where it was suppressed
    moment : (releases,) position of the arrival on which each comes
    radius : (tuples,) at the end of its wait; 1 without a price
    """

    tuples: Stream
    delay: int
    releases: Releases
    release: NDArray[np.int64]
    moment: NDArray[np.int64]
    radius: NDArray[np.float64]


@dataclass(frozen=True)
class Guesses:
    """Results of one run.

    Attributes
    ----------
    chance : expected share of right guesses at random among the releases that fit
    by_age, by_radius : share of right guesses with age and loss of each release; with the radius as well
    """

    chance: float
    by_age: float
    by_radius: float


@dataclass(frozen=True)
class Candidates:
    """Releases that fit each target, flattened.

    Attributes
    ----------
    target : (candidates,) index of the target
    kind : (candidates, 3) class of age, loss and radius
    right : (candidates,) whether it is the release of the target
    """

    target: NDArray[np.int64]
    kind: NDArray[np.int64]
    right: NDArray[np.bool_]


def results() -> Iterator[Table]:
    """Tabulate right guesses by rule and stream."""
    table = Table(
        "Right guesses of a person's release, by knowledge of the attacker (no reuse; a release has k persons or more)",
        ["stream", "k", "rule", "at random among those that fit", "by age and loss", "by radius as well"],
    )
    streams = settings()
    given = [
        (setting, price, seed)
        for setting in streams
        for _, price in _RULES
        for seed in (setting.seeds if setting.shuffled else range(1))
    ]
    found = in_processes(_guesses, given)
    for setting in streams:
        for name, _ in _RULES:
            runs = [next(found) for _ in (setting.seeds if setting.shuffled else range(1))]
            shares = ([getattr(run, figure) for run in runs] for figure in ("chance", "by_age", "by_radius"))
            table.add(setting.name, setting.k, name, *(f"{fmean(each):.1%}" for each in shares))
    yield table


def _guesses(given: tuple[StreamSetting, float, int]) -> Guesses:
    setting, price, seed = given
    tuples, privacy = setting.of(seed), Privacy(setting.k, setting.l)
    priced = followed(tuples, privacy, setting.delay, _PRICE, seed)  # the plain rule measures no radius
    return guess(priced if price else followed(tuples, privacy, setting.delay, 0.0, seed), priced.radius, seed)


def followed(tuples: Stream, privacy: Privacy, delay: int, price: float, seed: int) -> Run:
    """Run a stream through nearest."""
    stream, algorithm = tuples.numbered(), Nearest(Delay(delay), isolation_price=price)
    context = ShardContext(stream.policy, privacy, algorithm, stream.members.schema, remembers=False)
    shard: Any = algorithm.new(context, 0, bytes([seed]) * 32)
    radius, parts = np.ones(len(tuples)), []
    for block in stream.blocks(_BLOCK):
        parts.append(shard.push(block).releases)
        isolation = shard.arrays.isolation
        line = slice(isolation.now.begin, isolation.now.end)
        slots = isolation.line.slot[line]
        waits = slots != NONE
        radius[shard.arrays.tuples.position[slots[waits]]] = isolation.radius[line][waits]
    releases = Releases.joined([*parts, shard.finish().releases], parts[0])
    rows = np.array(releases.members[-1], np.int64)
    release = np.full(len(tuples), NONE)
    release[rows] = np.repeat(np.arange(len(releases)), releases.tuples)
    # A release comes when its oldest member is due, and the rest at the end of the stream.
    moment = np.minimum(np.minimum.reduceat(rows, releases.offsets[:-1]) + delay, len(tuples) - 1)
    return Run(tuples, delay, releases, release, moment, radius)


def guess(run: Run, radius: NDArray[np.float64], seed: int) -> Guesses:
    """Guess the releases of persons, with frequencies of other persons.

    Parameters
    ----------
    radius : (tuples,) that the attacker knows
    """
    drawn = np.random.default_rng(seed).permutation(np.flatnonzero(run.release != NONE))[: 2 * _TARGETS]
    middle = len(drawn) // 2
    learned, attacked = fitting(run, radius, drawn[:middle]), fitting(run, radius, drawn[middle:])
    fits = np.bincount(attacked.target)[attacked.target]
    return Guesses(
        chance=float((attacked.right / fits).sum() / (attacked.target.max() + 1)),
        by_age=_right(learned, attacked, 2),
        by_radius=_right(learned, attacked, 3),
    )


def fitting(run: Run, radius: NDArray[np.float64], targets: NDArray[np.int64]) -> Candidates:
    """Return all releases within the delay of each target whose boxes contain it."""
    targets, loss = np.sort(targets), run.releases.loss
    losses = np.quantile(loss, np.linspace(0, 1, _LOSSES + 1)[1:-1])
    radii = np.quantile(radius, np.linspace(0, 1, _RADII + 1)[1:-1])
    flat: tuple[list[Any], ...] = ([], [], [])
    for release, moment in enumerate(run.moment.tolist()):
        near = np.arange(*np.searchsorted(targets, (moment - run.delay, moment + 1)))
        own = targets[near]
        fits = inside(run.tuples, run.releases, release, run.tuples.numeric[own], run.tuples.categorical[own])
        near, own = near[fits], own[fits]
        age = np.minimum((moment - own) * _AGES // run.delay, _AGES - 1)
        flat[0].append(near)
        loss_class = np.full(len(near), np.searchsorted(losses, loss[release]))
        flat[1].append(np.column_stack([age, loss_class, np.searchsorted(radii, radius[own])]))
        flat[2].append(run.release[own] == release)
    return Candidates(*map(np.concatenate, flat))


def _right(learned: Candidates, attacked: Candidates, known: int) -> float:
    """Return the share of right guesses by the first columns of ``kind``; equal candidates share a guess."""
    shape = (_AGES, _LOSSES, _RADII)[:known]
    right, seen = np.zeros(shape), np.zeros(shape)
    np.add.at(seen, tuple(learned.kind[:, :known].T), 1)
    np.add.at(right, tuple(learned.kind[learned.right, :known].T), 1)
    rate = ((right + right.sum() / seen.sum()) / (seen + 1))[tuple(attacked.kind[:, :known].T)]
    count = int(attacked.target.max()) + 1
    best = np.zeros(count)
    np.maximum.at(best, attacked.target, rate)
    chosen = rate == best[attacked.target]
    return float((np.bincount(attacked.target, chosen & attacked.right) / np.bincount(attacked.target, chosen)).mean())
