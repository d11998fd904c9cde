"""Loss, suppression and query error of ``cells`` beside nearest and CASTLE, which are not differentially private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

import numpy as np
import pyarrow as pa

from benchmarks.adult import stream
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.model.attributes import Numeric, by_name
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.noise.composition import least_k
from crenel.anonymity.noise.selection import noisy_counts
from crenel.anonymity.regions.loss import EncodedSample
from crenel.anonymity.regions.private import learn_privately
from experiments.castle.contenders import contender, shuffled
from experiments.castle.queries import Case, Generalized, published, workload_error
from experiments.cells.safepub import Search, ks_of, publish, rate_of
from experiments.harness import Replay, Stream, Table, in_processes, mean_interval, replay, seeds, taxi_stream
from experiments.nearest.streams import demo

SAMPLE_RATE = 0.2
EPSILON, DELTA = 1.0, 1e-6

_SEEDS = 5
_K = 10
_NAMES = ("cells", "noisy cells", "nearest", "CASTLE")
_QUERIED = ("age", "education-num", "hours-per-week", "education")
"""Quasi-identifiers of the queries on Adult, as in the CASTLE paper's experiment with four of them."""

_SELECTIVITY = 0.1
_QUERIES = 1_000
_LEARNING = {
    "cells": {1_000: (0.2, 9), 10_000: (0.4, 12), None: (0.5, 12)},
    "noisy cells": {1_000: (0.3, 11), 10_000: (0.5, 12), None: (0.5, 12)},
}
"""Share of epsilon that learning spends, and levels of the partition, by release and window."""

_SPARE = 1.3
"""Expected persons that count of the smallest cell that learning does not penalize, in multiples of the threshold; with
a sensitive attribute, for each of its values."""

_EXACT = 1e6
"""Epsilon of learning that no noise disturbs."""

_SEARCHES = {
    "as in ARX": (Search(0.1, 300, "exact"), 0.1, True),
    "as in ARX, with the k of Crenel": (Search(0.1, 300, "exact"), 0.1, False),
    "private": (Search(0.3, 1_000, "private"), 0.3, False),
    "without noise or cost": (Search(inf, 300, "exact"), 0.0, False),
}
"""Settings of SafePub's search by name, the epsilon that it spends, and whether k is that of Theorem 5 of Li, Qardaji
and Su. 0.1 is the default of ARX, and 300 steps are those of its tests with epsilon 1."""

_HELD = 10_000
"""Window of the runs that show what holds the loss."""


_LABELS = {
    **dict.fromkeys(("check-up",), "check-up"),
    **dict.fromkeys(("cold", "back pain", "allergy"), "acute"),
    **dict.fromkeys(("hypertension", "depression", "diabetes", "cancer", "hiv"), "chronic"),
}
"""Label of each diagnosis of the demo, as ``policy.generalized`` would declare it."""


@dataclass(frozen=True)
class Data:
    """A data set.

    Attributes
    ----------
    name, summary : for the title
    sensitive : the sensitive attribute that half of the runs publish; None: no run does
    queried : quasi-identifiers of the queries; None: all
    windows : of its runs
    labels : label of each sensitive value, for further runs of cells
    """

    name: str
    summary: str
    sensitive: str | None
    queried: tuple[str, ...] | None
    windows: tuple[int | None, ...] = (1_000, 10_000, None)
    labels: Mapping[str, str] | None = None


_DATA = (
    Data("Adult", "30,162 records, ten quasi-identifiers", "income", _QUERIED),
    Data("taxi", "1,000 trips, two quasi-identifiers", None, None, (1_000,)),
    Data("demo", "49,729 visits, four quasi-identifiers", "diagnosis", None, labels=_LABELS),
)


@dataclass(frozen=True)
class Run:
    """One replay.

    Attributes
    ----------
    data : name of the data set
    window : records of a window, and the delay of the others in tuples; None: all
    sensitive : whether the sensitive attribute is published
    queried : as of ``Data``
    labels : as of ``Data``; None: values themselves are published
    """

    data: str
    name: str
    window: int | None
    sensitive: bool
    queried: tuple[str, ...] | None
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Measures:
    """Measures of one replay.

    Attributes
    ----------
    loss : mean over all records whose publication was decided, where a suppressed one loses 1; from 0 to 1
    suppressed : share of these records, from 0 to 1
    error : median relative error of COUNT queries, in percent
    """

    loss: float
    suppressed: float
    error: float


def k_of(epsilon: float) -> int:
    """Return the k of ``cells`` that a window's epsilon needs."""
    found = least_k(SAMPLE_RATE, epsilon, DELTA)
    assert found is not None
    return found


def results() -> Iterator[Table]:
    """Tabulate the measures on each data set by algorithm and window, without and with a sensitive attribute."""
    yield from map(_tabulated, _DATA)
    yield _holding()


def _tabulated(data: Data) -> Table:
    every = seeds(_SEEDS)
    table = Table(
        f"Cells with epsilon {EPSILON:g}, delta {DELTA:g}, beside nearest and CASTLE without differential privacy "
        f"({data.name}, {data.summary}; mean and 95 % confidence interval over random orders)",
        ["algorithm", "sensitive", "window, delay", "k or threshold", "mean loss", "suppressed, %", "query error, %"],
    )
    runs = [
        Run(data.name, name, window, sensitive, data.queried, labels)
        for name in _NAMES
        for sensitive, labels in _published(data, name)
        for window in data.windows
    ]
    found = in_processes(_measured, [(run, seed) for run in runs for seed in every])
    for run in runs:
        measures = [next(found) for _ in every]
        table.add(
            run.name,
            f"{data.sensitive}{f', {len({*run.labels.values()})} labels' if run.labels else ''}"
            if run.sensitive
            else "none",
            "all" if run.window is None else f"{run.window:,}",
            _threshold(run.name, _LEARNING[run.name][run.window][0]) if run.name in _LEARNING else _K,
            *_shown(measures),
        )
    return table


def _holding() -> Table:
    """Tabulate the loss of partitions that no noise disturbs, and of classes of persons that follow the data."""
    every, data = seeds(_SEEDS), _DATA[0]
    table = Table(
        f"Limits of the loss of cells ({data.name}, windows of {_HELD:,}, quasi-identifiers only; mean and 95 % "
        "confidence interval over random orders)",
        ["algorithm", "partition", "k or threshold", "mean loss", "suppressed, %"],
    )
    for name in _LEARNING:
        share = _LEARNING[name][_HELD][0]
        for how, spent in (("learned privately", share), ("without noise", share), ("without noise or cost", 0.0)):
            exact = how != "learned privately"
            given = [(name, spent, seed, exact) for seed in every]
            losses, suppressed = zip(*in_processes(_of_partition, given), strict=True)
            shown = mean_interval([*losses]), mean_interval([100 * each for each in suppressed], ".1f")
            table.add(name, how, _threshold(name, spent), *shown)
    for k in (_threshold("noisy cells", 0.0), round(k_of(EPSILON) / SAMPLE_RATE)):
        run = Run(data.name, "nearest", _HELD, sensitive=False, queried=data.queried)
        found = [*in_processes(_measured, [(run, seed, k) for seed in every])]
        shown = (mean_interval([m.loss for m in found]), mean_interval([100 * m.suppressed for m in found], ".1f"))
        table.add("nearest", "follows the data", k, *shown)
    return table


def at_rest() -> Iterator[Table]:
    """Tabulate the measures of SafePub on each data set, without and with a sensitive attribute."""
    every = seeds(_SEEDS)
    table = Table(
        f"SafePub with epsilon {EPSILON:g}, delta {DELTA:g}, on all records of a data set (mean and 95 % confidence "
        "interval over random orders)",
        ["data", "sensitive", "search", "k", "sample rate", "mean loss", "suppressed, %", "query error, %"],
    )
    runs = [
        (data, sensitive, name)
        for data in _DATA
        for sensitive in (False, True)[: 1 + (data.sensitive is not None)]
        for name in _SEARCHES
    ]
    found = in_processes(_of_safepub, [(*run, seed) for run in runs for seed in every])
    for data, sensitive, name in runs:
        measures = [next(found) for _ in every]
        table.add(
            data.name,
            data.sensitive if sensitive else "none",
            name,
            _k_of_search(name),
            f"{rate_of(EPSILON - _SEARCHES[name][1]):.3f}",
            *_shown(measures),
        )
    yield table


def _k_of_search(name: str) -> int:
    _, spent, by_theorem = _SEARCHES[name]
    return ks_of(EPSILON - spent, DELTA)[by_theorem]


def _of_safepub(given: tuple[Data, bool, str, int]) -> Measures:
    """Return the measures of a run of ``at_rest``."""
    data, sensitive, name, seed = given
    search, spent, _ = _SEARCHES[name]
    tuples = numbered(shuffled(_stream(data.name), seed), sensitive=sensitive)
    found, loss, suppressed = publish(tuples, EPSILON - spent, _k_of_search(name), search, seed)
    queried = data.queried or tuple(attribute.name for attribute in tuples.policy.attributes)
    case = Case("SafePub", queried, _k_of_search(name), len(tuples), _SELECTIVITY)
    error = workload_error(case, _queried(found, rate_of(EPSILON - spent), queried), seed, _QUERIES)
    return Measures(loss, suppressed, 100 * error)


def _shown(measures: Sequence[Measures]) -> tuple[str, str, str]:
    """Return loss, suppression and query error as a table shows them."""
    return (
        mean_interval([each.loss for each in measures]),
        mean_interval([100 * each.suppressed for each in measures], ".1f"),
        mean_interval([each.error for each in measures], ".1f"),
    )


def _of_partition(given: tuple[str, float, int, bool]) -> tuple[float, float]:
    """Return mean loss and suppressed share of a run of ``_holding``."""
    name, share, seed, exact = given
    tuples = numbered(shuffled(_stream(_DATA[0].name), seed), sensitive=False)
    levels = _LEARNING[name][_HELD][1]
    made = _cells(tuples, _HELD, share, levels, seed, is_noisy=name == "noisy cells", exact=exact)
    return _decided(made)


def _decided(made: Replay) -> tuple[float, float]:
    """Return the mean loss over all records whose publication was decided, and the suppressed share of them."""
    suppressed = sum(made.counters.suppressed.values())
    decided = made.counters.released + suppressed
    return (made.counters.loss_sum + suppressed) / decided, suppressed / decided


def _published(data: Data, name: str) -> Iterator[tuple[bool, Mapping[str, str] | None]]:
    """Yield, for each run of an algorithm, whether sensitive values are published, and their labels."""
    yield False, None
    if data.sensitive:
        yield True, None
        if name in _LEARNING and data.labels is not None:
            yield True, data.labels


@cache
def _stream(name: str) -> Stream:
    """Return a data set in which each record is that of its own person."""
    found = stream() if name == "Adult" else taxi_stream() if name == "taxi" else demo(shards=1)
    return replace(found, policy=replace(found.policy, subject=None), subject=None)


def _measured(given: tuple[Run, int] | tuple[Run, int, int]) -> Measures:
    run, seed, k = (*given, _K)[:3]
    tuples = shuffled(_stream(run.data), seed)
    if run.labels is not None:
        tuples = labeled(tuples, run.labels)
    tuples = numbered(tuples, sensitive=run.sensitive)
    window = len(tuples) if run.window is None else run.window
    if run.name in _LEARNING:
        made = _cells(tuples, window, *_LEARNING[run.name][run.window], seed, is_noisy=run.name == "noisy cells")
    else:
        setting = contender(run.name, tuples, k, window)
        made = replay(setting.tuples, setting.algorithm, setting.privacy, seed)
    queried = run.queried or tuple(attribute.name for attribute in tuples.policy.attributes)
    found = _queried(published(tuples, made), SAMPLE_RATE if run.name == "cells" else 1, queried)
    case = Case(run.name, queried, k, window, _SELECTIVITY)
    return Measures(*_decided(made), 100 * workload_error(case, found, seed, _QUERIES))


def labeled(tuples: Stream, labels: Mapping[str, str]) -> Stream:
    """Return the tuples with the label of each value of the one sensitive attribute in its place."""
    (name,), members = tuples.policy.sensitive, tuples.members
    found = [labels[value] for value in members.column(name).to_pylist()]
    members = members.set_column(members.schema.get_field_index(name), name, pa.array(found))
    codes = np.unique(found, return_inverse=True)[1].astype(np.uint64)
    return replace(tuples, members=members, sensitive=codes.reshape(-1, 1))


def numbered(tuples: Stream, *, sensitive: bool) -> Stream:
    """Return the tuples with their row as a pass-through column, for the measures alone; only integers have a step."""
    integer = {a.name for i, a in enumerate(tuples.policy.numeric) if not (tuples.numeric[:, i] % 1).any()}
    attributes = tuple(
        replace(attribute, step=1.0 if attribute.name in integer else None)
        if isinstance(attribute, Numeric)
        else attribute
        for attribute in tuples.policy.attributes
    )
    names = tuples.policy.sensitive if sensitive else ()
    policy = replace(tuples.policy, quasi_identifiers=by_name(attributes), sensitive=names, passthrough=("row",))
    members = tuples.members.select(names).append_column("row", pa.array(np.arange(len(tuples))))
    return replace(tuples, policy=policy, members=members, sensitive=tuples.sensitive[:, : len(names)])


def _threshold(name: str, share: float) -> int:
    """Return how many persons that count a published key has, where learning has spent a share of epsilon."""
    left = EPSILON - EPSILON * share
    return noisy_counts(_K, left, DELTA).threshold if name == "noisy cells" else k_of(left)


def _cells(
    tuples: Stream,
    window: int,
    share: float,
    levels: int,
    seed: int,
    *,
    is_noisy: bool = False,
    exact: bool = False,
) -> Replay:
    """Learn a partition from all tuples, and anonymize them in windows; each tuple is its own person.

    ``exact``: no noise disturbs learning, although no more of epsilon is spent.
    """
    spent, rate = EPSILON * share, None if is_noisy else SAMPLE_RATE
    threshold = _threshold("noisy cells" if is_noisy else "cells", share)
    # A cell holds as many persons that count of a window as its share of all tuples says, whose number counts as known.
    # So does the number of sensitive values, each of which divides a cell.
    values = len(np.unique(tuples.sensitive, axis=0)) if tuples.sensitive.shape[1] else 1
    least = _SPARE * threshold / (rate or 1) * len(tuples) / window * values
    sample, random = EncodedSample(tuples.numeric, tuples.categorical), np.random.default_rng(seed)
    tree = learn_privately(tuples.policy, sample, 2**levels, least, _EXACT if exact else spent, random)
    tree = replace(tree, epsilon=spent)
    parameters = Cells(tree, EPSILON, DELTA, sample_rate=rate, window=1, release="noisy" if is_noisy else "sampled")
    shard = Cells.new(
        ShardContext(
            tuples.policy, Privacy(_K if is_noisy else threshold), parameters, tuples.members.schema, remembers=False
        ),
        0,
        bytes([seed]) * 32,
    )
    # The number of its window stands for the event time of a tuple.
    for number, block in enumerate(tuples.blocks(window)):
        shard.push(replace(block, event_time=np.full(len(block), number)))
    return Replay([shard.finish().releases], shard.counters, 0.0)


def _queried(found: Generalized, weight: float, queried: tuple[str, ...]) -> Generalized:
    """Return the published attributes of the queries, with the number of records that each published one stands for."""
    tuples = found.tuples
    numeric = [i for i, attribute in enumerate(tuples.policy.numeric) if attribute.name in queried]
    categorical = [i for i, attribute in enumerate(tuples.policy.categorical) if attribute.name in queried]
    return replace(
        found,
        tuples=tuples.of_attributes(queried),
        lower=found.lower[:, numeric],
        upper=found.upper[:, numeric],
        node=found.node[:, categorical],
        weight=1 / weight,
    )
