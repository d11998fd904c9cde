"""Loss of CASTLE by its parameters and by kind of stream (Section 5.1, Figures 4 to 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.adult import stream
from crenel.anonymity.model.privacy import Privacy
from experiments.castle.contenders import (
    CONTENDERS,
    SEEDS,
    contender,
    of_persons,
    persons_within,
    shuffled,
    zipf,
)
from experiments.harness import Replay, Setting, Stream, Table, mean_interval, replays

_K, _DELAY = 100, 10_000
_ORDERS = "mean and 95 % confidence interval over five random orders"
_CLUSTERS = (10, 25, 50, 75, 100, 200)
_LOSS_WINDOWS = (1, 50, 100, 150, 200)
_ATTRIBUTES = (2, 4, 6, 8, 10)
_KS = (25, 50, 100, 200, 400, 700, 1000)
_EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0)
_SKEWED_CASES = ((100, 5_000), (100, 10_000), (100, 20_000), (400, 10_000), (1000, 10_000))  # k and delay
_SKEWED = 50_000  # tuples
_ROWS = (1, 5, 10, 15)
_TUPLES = 30_000
_EACH = 5  # tuples of a person
_ARRIVALS = (("in random order", None), ("within 1,000 tuples", 1_000), ("one after the other", _EACH))


def clusters() -> Iterator[Table]:
    """Tabulate the loss by number of clusters and of recent releases (Figure 4b)."""
    adult = stream()
    pairs = [(clusters, window) for clusters in _CLUSTERS for window in _LOSS_WINDOWS]
    settings = [
        contender("CASTLE", adult, _K, _DELAY, clusters=clusters, loss_window=window) for clusters, window in pairs
    ]
    found = iter(_losses(settings))
    table = Table(
        "Figure 4: loss of CASTLE by max_clusters and loss_window (Adult, ten attributes, "
        f"k = {_K}, delay {_DELAY:,}; {_ORDERS})",
        ["max_clusters", *(f"loss_window {window}" for window in _LOSS_WINDOWS)],
    )
    for number in _CLUSTERS:
        table.add(number, *(next(found) for _ in _LOSS_WINDOWS))
    yield table


def attributes() -> Iterator[Table]:
    """Tabulate the loss by number of quasi-identifiers and by k (Figure 5)."""
    yield _compared(
        f"Figure 5a: loss by number of quasi-identifiers (Adult, k = {_K}, delay {_DELAY:,}; {_ORDERS})",
        ["quasi-identifiers"],
        [((number,), stream(number), _K, _DELAY) for number in _ATTRIBUTES],
    )
    adult = stream()
    yield _compared(
        f"Figure 5b: loss by k (Adult, ten attributes, delay {_DELAY:,}; {_ORDERS})",
        ["k"],
        [((k,), adult, k, _DELAY) for k in _KS],
    )


def skew() -> Iterator[Table]:
    """Tabulate the loss by the exponent of a power law (Figure 6)."""
    streams = {exponent: zipf(_SKEWED, exponent) for exponent in _EXPONENTS}
    yield _compared(
        f"Figure 6: loss by power law ({_SKEWED:,} tuples, four numbers of 1 to 1,000; {_ORDERS})",
        ["k", "delay", "exponent"],
        [
            ((k, f"{delay:,}", exponent), streams[exponent], k, delay)
            for k, delay in _SKEWED_CASES
            for exponent in _EXPONENTS
        ],
    )


def persons() -> Iterator[Table]:
    """Tabulate the loss by tuples per person, attributes and k (Figure 7)."""
    cases = [(rows, number, _K) for rows in _ROWS for number in (4, 10)]
    cases += [(rows, 4, k) for rows in _ROWS for k in (200, 400)]
    yield _compared(
        f"Figure 7: loss by tuples per person (Adult, {_TUPLES:,} tuples, delay {_DELAY:,}; {_ORDERS})",
        ["tuples per person", "quasi-identifiers", "k"],
        [
            ((rows, number, k), of_persons(stream(number), _TUPLES // rows, rows), k, _DELAY)
            for rows, number, k in sorted(cases)
        ],
    )


def records() -> Iterator[Table]:
    """Tabulate the loss by how near to each other the tuples of a person arrive, whose values differ."""
    adult, k, delay = stream(), 10, 1_000
    chosen = (("CASTLE", 50), ("CASTLE", 10), ("nearest", 0))
    table = Table(
        f"Loss with five tuples of each person, by their arrival (Adult, ten attributes, k = {k}, delay {delay:,}; "
        f"{_ORDERS})",
        ["tuples of a person", "l", "CASTLE", "CASTLE, 10 clusters", "nearest"],
    )
    for arrival, within in _ARRIVALS:
        order = partial(persons_within, each=_EACH, within=within)
        for diversity in (1, 2):
            settings = [contender(name, adult, k, delay, clusters=clusters) for name, clusters in chosen]
            diverse = [replace(setting, privacy=Privacy(k, diversity)) for setting in settings]
            table.add(arrival, diversity, *_losses(diverse, order))
    yield table


def _compared(title: str, columns: list[str], cases: Sequence[tuple[tuple[Any, ...], Stream, int, int]]) -> Table:
    """Return the loss of each contender by case: its cells, stream, k and delay."""
    table = Table(title, [*columns, *CONTENDERS])
    found = iter(_losses([contender(name, tuples, k, delay) for _, tuples, k, delay in cases for name in CONTENDERS]))
    for cells, *_ in cases:
        table.add(*cells, *(next(found) for _ in CONTENDERS))
    return table


def _losses(settings: Sequence[Setting], order: Callable[[Stream, int], Stream] = shuffled) -> Iterator[str]:
    for runs in replays(settings, SEEDS, order):
        yield mean_interval([run.loss for run in runs]) + _suppressed(runs)


def _suppressed(runs: Sequence[Replay]) -> str:
    """Return the suppressed share in brackets, where it rounds to more than 0."""
    share = sum(run.suppressed for run in runs) / len(runs)
    return f" ({share:.1%})" if share >= 0.0005 else ""
