"""Error, linking risk and suppression on Adult as a stream in file order, which the paper does not show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy
from experiments.harness import REUSE, Drawing, Table, drawing, in_processes, legend_below, panels, percent, seeds
from experiments.kepsilon.assignment import LARGEST, bound, linked_in_order, posterior
from experiments.kepsilon.core import CONFIDENCE, EPSILONS, Run, key, noise, published
from experiments.kepsilon.noise import CONFIDENCES
from experiments.kepsilon.populations import Population, adult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KS = (5, 10, 50)
RUNS = 30
DELTA = 1000
METHODS = ("CASTLE", "nearest", "windows")

_SUPPRESSED = "suppressed at 99 % confidence as linkable (in brackets: for any reason)"

_K = 10
_FEW_RUNS = 5
_WEAK = 0.5
"""Epsilon at which confidence suppresses almost no tuple: classes are complete, without reuse."""


@dataclass(frozen=True)
class Streamed:
    """Results with one k and epsilon, as means over seeds.

    Attributes
    ----------
    error, expected : mean relative error; as the core expects it (equation 7, with the minimum width)
    linked : share of the published
    withheld : share of the people that was suppressed for confidence, in runs of their own
    gone : share of the people that was suppressed for any reason in the same runs
    lost : share of the people that was suppressed without confidence
    loss : of the k-quasis
    loss_confident : the same in the runs with confidence, without reuse
    """

    error: float
    expected: float
    linked: float
    withheld: float
    gone: float
    lost: float
    loss: float
    loss_confident: float


def shard(people: Population, method: str, privacy: Privacy, seed: int, delay: int = DELTA) -> Shard:
    """Return an empty shard; ``delay`` is the delay of CASTLE and nearest, or the size of windows."""
    policy = people.policy(by_levels=False, noised=True)
    members = people.members(policy)
    if method == "CASTLE":
        algorithm: Algorithm = Castle(Delay(delay), reuse_limit=REUSE)
    else:
        algorithm = Nearest(Delay(delay)) if method == "nearest" else Suhdsa(delay)
    return algorithm.new(ShardContext(policy, privacy, algorithm, members, remembers=False), 0, key(seed))


def run(people: Population, method: str, privacy: Privacy, seed: int, delay: int = DELTA) -> tuple[Run, float]:
    """Push all persons through a shard; return the published values and the mean loss."""
    working = shard(people, method, privacy, seed, delay)
    first = working.push(people.block(people.policy(by_levels=False, noised=True))).releases
    found = first.joined([first, working.finish().releases], first)
    counters = working.counters
    return published(people, found, counters), counters.loss_sum / max(counters.released, 1)


def gone(people: Population, found: Run) -> float:
    """Return the share of the persons that a run suppressed, for any reason."""
    return 1 - len(found.rows) / len(people)


def streamed(people: Population, method: str, k: int, epsilon: float, number: int = RUNS) -> Streamed:
    """Run one k and epsilon with every seed."""
    plain, confident = (
        [run(people, method, noise(epsilon, k, confident=each), seed) for seed in range(number)]
        for each in (False, True)
    )

    def mean(of: Callable[[Run], float]) -> float:
        return float(np.mean([of(found) for found, _ in plain]))

    return Streamed(
        error=mean(lambda found: float(found.errors(people).mean())),
        expected=mean(
            lambda found: float(np.average(found.releases.noise_expected[:, 0], weights=found.releases.tuples))
        ),
        linked=mean(lambda found: found.linked),
        withheld=float(np.mean([found.withheld for found, _ in confident])),
        gone=float(np.mean([gone(people, found) for found, _ in confident])),
        lost=mean(lambda found: gone(people, found)),
        loss=float(np.mean([loss for _, loss in plain])),
        loss_confident=float(np.mean([loss for _, loss in confident])),
    )


@cache
def measured() -> dict[tuple[str, int, float], Streamed]:
    """Return all results, by method, k and epsilon."""
    wanted = [(method, k, epsilon) for method in METHODS for k in KS for epsilon in EPSILONS]
    return dict(zip(wanted, in_processes(_streamed, wanted), strict=True))


def _streamed(of: tuple[str, int, float]) -> Streamed:
    return streamed(adult(), *of, number=len(seeds(RUNS)))


def stream_table(method: str, what: str, shown: Callable[[Streamed], str]) -> Table:
    """Tabulate one result of one method by k and epsilon."""
    setting = f"windows of {DELTA:,}" if method == "windows" else f"a delay of {DELTA:,}"
    table = Table(
        f"Adult as a stream, {method}: {what} ({setting}, {len(seeds(RUNS))} runs)",
        ["k \\ epsilon", *(f"{epsilon:g}" for epsilon in EPSILONS)],
    )
    for k in KS:
        table.add(k, *(shown(measured()[method, k, epsilon]) for epsilon in EPSILONS))
    return table


def nearer_table() -> Table:
    """Tabulate suppression where fewer than k persons must be near."""
    people = adult()
    epsilons = (1.0, 2.0, 4.0, 8.0)
    table = Table(
        f"Adult as a stream, k = {_K}: {_SUPPRESSED}, by confidence.k ({len(seeds(_FEW_RUNS))} runs)",
        ["method", "confidence.k", *(f"epsilon {epsilon:g}" for epsilon in epsilons)],
    )
    for method in METHODS:
        for near in (2, 5, _K):
            cells = []
            for epsilon in epsilons:
                privacy = Privacy(
                    _K, noise_within_release=NoiseWithinRelease(epsilon, confidence=Confidence(CONFIDENCE, near))
                )
                cells.append(_suppressed(people, method, privacy))
            table.add(method, near, *cells)
    return table


def confidence_table() -> Table:
    """Tabulate suppression by the confidence, 70 to 99.999 % (Section VI)."""
    people = adult()
    table = Table(
        f"Adult as a stream, k = {_K}: suppressed as linkable (in brackets: for any reason), by confidence.c "
        f"({len(seeds(_FEW_RUNS))} runs, confidence.k = {_K})",
        ["method", "epsilon", *(f"{100 * c:g} %" for c in CONFIDENCES)],
    )
    for method in METHODS:
        for epsilon in (1.0, 4.0):
            cells = []
            for c in CONFIDENCES:
                privacy = Privacy(_K, noise_within_release=NoiseWithinRelease(epsilon, confidence=Confidence(c, _K)))
                cells.append(_suppressed(people, method, privacy))
            table.add(method, f"{epsilon:g}", *cells)
    return table


def delay_table() -> Table:
    """Tabulate suppression and the size of classes by the delay."""
    people = adult()
    epsilons = (2.0, 4.0, 8.0)
    table = Table(
        f"Adult as a stream, k = {_K}: {_SUPPRESSED}, by the delay or the size of windows "
        f"({len(seeds(_FEW_RUNS))} runs)",
        [
            "method",
            "tuples",
            *(f"epsilon {epsilon:g}" for epsilon in epsilons),
            "loss",
            "median size of a person's class",
            f"share in classes below {2 * _K}",
        ],
    )
    for method in METHODS:
        for delay in (200, DELTA, 5 * DELTA):
            cells = [_suppressed(people, method, noise(epsilon, _K, confident=True), delay) for epsilon in epsilons]
            whole, loss = run(people, method, noise(_WEAK, _K, confident=True), 0, delay)
            of = np.repeat(whole.releases.tuples, whole.releases.tuples)
            table.add(
                method,
                f"{delay:,}",
                *cells,
                f"{loss:.3f}",
                f"{np.median(of):,.0f}",
                f"{np.mean(of < 2 * _K) * 100:.0f} %",
            )
    return table


def attackers_table() -> Table:
    """Tabulate the links of attackers who know all originals of each class."""
    people = adult()
    table = Table(
        f"Adult as a stream, nearest, k = {_K}: links of attackers who know the originals of a class "
        "(a delay of 1,000, 1 run)",
        ["epsilon", "nearest original (`linkable`)", "ascending order", "largest posterior", "bound"],
    )
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        records, *links = _links(people, run(people, "nearest", noise(epsilon, _K, confident=False), 0)[0], epsilon)
        table.add(f"{epsilon:g}", *(percent(amount / records) for amount in links))
    return table


def _links(people: Population, found: Run, epsilon: float) -> tuple[float, ...]:
    """Return the published records in classes of at most ``LARGEST``, and the links of each attacker."""
    original, releases = people.values[found.rows], found.releases
    lower, upper = people.noised.domain or (0.0, 0.0)
    sums = np.zeros(5)
    for start, stop in zip(releases.offsets, releases.offsets[1:], strict=False):
        records = stop - start
        if not _K <= records <= LARGEST:
            continue
        own, shown = original[start:stop], found.published[start:stop]
        apart = np.abs(shown[:, None] - own[None, :])
        of_all = posterior(own, shown, max(np.ptp(own), 0.02 * (upper - lower)) / epsilon)
        sums += (
            records,
            (apart.diagonal() <= apart.min(axis=1)).sum(),
            linked_in_order(own, shown),
            of_all.max(axis=1).sum(),
            records * bound(records, epsilon),
        )
    return tuple(sums)


def other_table() -> Table:
    """Tabulate loss and suppression without confidence, which are equal for all epsilon."""
    table = Table(
        "Adult as a stream: loss of the k-quasis, and suppression without confidence "
        f"(epsilon 1, {len(seeds(RUNS))} runs)",
        ["method", "k", "mean loss", "mean loss with confidence", "suppressed without confidence"],
    )
    for method in METHODS:
        for k in KS:
            found = measured()[method, k, 1.0]
            table.add(method, k, f"{found.loss:.3f}", f"{found.loss_confident:.3f}", percent(found.lost))
    return table


def results() -> Iterator[Table | Drawing]:
    """Yield all tables and figures of this module."""
    for method in METHODS:
        yield stream_table(
            method,
            "mean relative error, and as the core expects it",
            lambda found: f"{percent(found.error)} ({percent(found.expected)})",
        )
        yield stream_table(method, "linked records", lambda found: percent(found.linked))
        yield stream_table(method, _SUPPRESSED, lambda found: _of_all(found.withheld, found.gone))
    yield nearer_table()
    yield confidence_table()
    yield delay_table()
    yield attackers_table()
    yield other_table()
    yield drawing("kepsilon-stream", _figure)


def _suppressed(people: Population, method: str, privacy: Privacy, delay: int = DELTA) -> str:
    """Return the mean share of the persons that is suppressed as linkable, and in brackets for any reason."""
    found = [run(people, method, privacy, seed, delay)[0] for seed in seeds(_FEW_RUNS)]
    withheld = float(np.mean([each.withheld for each in found]))
    return _of_all(withheld, float(np.mean([gone(people, each) for each in found])))


def _of_all(withheld: float, lost: float) -> str:
    return f"{percent(withheld)} ({percent(lost)})"


def _figure() -> Figure:
    figure, grid = panels(len(METHODS), 3, (9, 9), sharey="col")
    fields: tuple[tuple[str, str], ...] = (
        ("error", "error, %"),
        ("linked", "linked records, %"),
        ("gone", "suppressed with confidence, %"),
    )
    for row, method in zip(grid, METHODS, strict=True):
        for panel, (field, name) in zip(row, fields, strict=True):
            for k in KS:
                shares = [100 * getattr(measured()[method, k, epsilon], field) for epsilon in EPSILONS]
                panel.semilogx(EPSILONS, shares, marker="o", markersize=3, label=f"k = {k}")
            panel.set(title=f"Adult as a stream, {method}", xlabel="epsilon", ylabel=name)
    return legend_below(figure, grid[0, 0])
