"""Loss and throughput on Adult by number of shards, divided by subject or region, at the same total delay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.adult import stream
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import RegionTree
from crenel.anonymity.model.secret import NO_KEY
from crenel.anonymity.regions.learn import learn, members_of
from crenel.anonymity.regions.loss import EncodedSample
from crenel.operators.column_types import parse
from crenel.operators.encode.encoder import Encoder
from crenel.operators.plan import plan_of
from crenel.settings import Settings
from experiments.harness import REUSE, Drawing, Stream, Table, legend_below, panels, replay, seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_K = 10
_SEEDS = 5
_BATCH = 20_000
_REPEATS = 15
SHARDS = (1, 4, 8, 16)
DELAYS = (1_000, 10_000)

_CLUSTERS = 50
"""Open clusters of CASTLE, over all shards."""

_adult = cache(stream)


@dataclass(frozen=True, eq=False)
class Contender:
    """An algorithm for one of several shards.

    Attributes
    ----------
    algorithm : function of the total delay in tuples and the number of shards
    """

    name: str
    algorithm: Callable[[int, int], Algorithm]


def _castle(delay: int, shards: int) -> Castle:
    return Castle(Delay(delay // shards), max_clusters=max(_CLUSTERS // shards, 1), reuse_limit=REUSE)


CONTENDERS = (
    Contender("CASTLE", _castle),
    Contender("nearest", lambda delay, shards: Nearest(Delay(delay // shards), reuse_limit=REUSE)),
    Contender("windows", lambda delay, shards: Suhdsa(tuples=delay // shards)),
)


@dataclass(frozen=True)
class Run:
    """Mean loss of released tuples, share of suppressed tuples, and seconds of the slowest shard."""

    loss: float
    suppressed: float
    seconds: float


def run(adult: Stream, shard_of: NDArray[np.int64], contender: Contender, delay: int, seed: int) -> Run:
    """Push a stream through its shards, one after another."""
    count = int(shard_of.max()) + 1
    loss, released, suppressed, longest = 0.0, 0, 0, 0.0
    for number in range(count):
        part = adult.rows(np.flatnonzero(shard_of == number))
        made = replay(part, contender.algorithm(delay, count), Privacy(_K), seed)
        longest = max(longest, made.seconds)
        loss, released = loss + made.counters.loss_sum, released + made.counters.released
        suppressed += sum(made.counters.suppressed.values())
    return Run(loss / max(released, 1), suppressed / len(adult), longest)


def by_subject(adult: Stream, count: int, seed: int) -> NDArray[np.int64]:
    """Return the shard of each tuple, where each is its own person and hashes divide persons."""
    return np.random.default_rng(seed).integers(0, count, len(adult))


@cache
def regions(count: int) -> RegionTree:
    """Return regions learned from all of Adult."""
    adult = _adult()
    return learn(adult.policy, EncodedSample(adult.numeric, adult.categorical), count, members_of(_K))


def by_region(adult: Stream, count: int, _: int) -> NDArray[np.int64]:
    """Return the shard of each tuple by its region."""
    return regions(count).regions(adult.numeric, adult.categorical)


DIVISIONS = {"subject": by_subject, "region": by_region}


@cache
def runs(contender: Contender, delay: int, count: int, by: str) -> list[Run]:
    """Return one run per seed of Adult in ``count`` shards, divided by one of ``DIVISIONS``."""
    adult = _adult()
    return [run(adult, DIVISIONS[by](adult, count, seed), contender, delay, seed) for seed in seeds(_SEEDS)]


def mean_loss(found: list[Run]) -> float:
    """Return the mean loss over all seeds."""
    return fmean(one.loss for one in found)


def rate(found: list[Run]) -> float:
    """Return the tuples per second with a core for each shard, best of the seeds."""
    return len(_adult()) / min(one.seconds for one in found)


def loss_table(contender: Contender, delay: int) -> Table:
    """Tabulate the loss by number of shards."""
    table = Table(
        f"{contender.name}, {delay:,} tuples in all (k = {_K}, file order, mean of {len(seeds(_SEEDS))} seeds)",
        ["shards", "by", "mean loss", "relative to one shard", "suppressed", "tuples/s, a core for each shard"],
    )
    one = mean_loss(runs(contender, delay, 1, "subject"))
    for count in SHARDS:
        for by in DIVISIONS if count > 1 else ("subject",):
            found = runs(contender, delay, count, by)
            table.add(
                count,
                "-" if count == 1 else by,
                f"{mean_loss(found):.3f}",
                f"{mean_loss(found) / one:.2f}",
                f"{fmean(each.suppressed for each in found):.2%}",
                f"{rate(found):,.0f}",
            )
    return table


def assignment_table(adult: Stream) -> Table:
    """Tabulate the time to find the region of a tuple, beside the whole encoder."""
    large = adult.enlarged(_BATCH)
    table = Table(
        f"Finding the region of a tuple (a batch of {_BATCH:,} like those of Adult, best of {_REPEATS})",
        ["regions", "deepest cut", "nanoseconds a tuple", "all of the encoder", "share of its time"],
    )
    for count in (4, 16, 64):
        tree = regions(count)
        encoder, series = encoder_of(large, Shards(count, "regions", tree))
        assign = fastest(partial(tree.regions, large.numeric, large.categorical)) / len(large) * 1e9
        encode = fastest(partial(encoder.encode, *series)) / len(large) * 1e9
        table.add(count, tree.depth, f"{assign:.0f}", f"{encode:,.0f}", f"{assign / encode:.1%}")
    return table


def fastest(work: Callable[[], object]) -> float:
    """Return the minimum seconds of some runs."""
    spent = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent)


def encoder_of(tuples: Stream, shards: Shards) -> tuple[Encoder, list[pd.Series[Any]]]:
    """Return the encoder of a job on these tuples, and its input columns."""
    types = {a.name: "INT" if isinstance(a, Numeric) else "STRING" for a in tuples.policy.attributes}
    settings = Settings(
        policy=tuples.policy, privacy=Privacy(_K), algorithm=Castle(Delay(1_000)), shards=shards, subject_key=NO_KEY
    )
    plan, _ = plan_of(settings, {name: parse(type_) for name, type_ in {**types, "income": "STRING"}.items()})
    plan = replace(plan, keys=tuple(range(shards.count)))
    columns: dict[str, pd.Series[Any]] = {"income": tuples.members.column(0).to_pandas()}
    for attribute, numbers in zip(tuples.policy.numeric, tuples.numeric.T, strict=True):
        columns[attribute.name] = pd.Series(numbers)
    for category, leaves in zip(tuples.policy.categorical, tuples.categorical.T, strict=True):
        columns[category.name] = pd.Series(np.array(category.hierarchy.labels, object)[leaves])
    reads = sorted((*plan.quasi_identifiers, *plan.sensitive), key=lambda read: read.value)
    return Encoder(plan), [columns[read.name] for read in reads]


def results() -> Iterator[Table | Drawing]:
    """Yield all tables and the figure."""
    adult = _adult()
    for contender in CONTENDERS:
        run(adult, by_subject(adult, 16, 0), contender, 1_000, 0)  # compile
        for delay in DELAYS:
            yield loss_table(contender, delay)
    yield assignment_table(adult)
    yield Drawing("scale", _figure)


def _figure() -> Figure:
    """Return loss (above) and throughput (below) by number of shards; a column for each algorithm."""
    figure, grid = panels(2, len(CONTENDERS), (9, 6), sharex=True, sharey="row")
    styles, colors = {"subject": "--", "region": "-"}, {delay: f"C{i}" for i, delay in enumerate(DELAYS)}
    shown: dict[str, Callable[[list[Run]], float]] = {"mean loss": mean_loss, "tuples/s, a core for each shard": rate}
    for row, (name, value) in zip(grid, shown.items(), strict=True):
        for contender, panel in zip(CONTENDERS, row, strict=True):
            for delay in DELAYS:
                for by, style in styles.items():
                    values = [value(runs(contender, delay, count, by if count > 1 else "subject")) for count in SHARDS]
                    panel.plot(
                        SHARDS,
                        values,
                        marker="o",
                        markersize=3,
                        linestyle=style,
                        color=colors[delay],
                        label=f"by {by}, {delay:,} tuples in total",
                    )
            panel.set_xscale("log", base=2)
            panel.set_xticks(SHARDS, map(str, SHARDS))
        row[0].set_ylabel(name)
    for contender, above, below in zip(CONTENDERS, *grid, strict=True):
        above.set_title(f"Adult, {contender.name}")
        below.set_xlabel("shards")
    grid[0, 0].set_ylim(bottom=0)
    grid[1, 0].set_yscale("log")
    return legend_below(figure, grid[0, 0], 4)
