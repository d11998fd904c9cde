"""Mondrian in the core: UCI Adult as one window (``benchmarks.adult``), from a block to its releases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

from benchmarks.adult import MEMBERS, Stream, stream
from benchmarks.table import Table
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.batch.stored import begun
from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.algorithms.mondrian.parameters import MondrianParameters
from crenel.anonymity.algorithms.mondrian.shard import Mondrian
from crenel.anonymity.model.privacy import Privacy

_RUNS = 3
_BLOCK = 2000


def run(adult: Stream, privacy: Privacy, parameters: MondrianParameters) -> tuple[float, float, int]:
    """Mean loss, the least seconds of some runs from the block to the releases, and how many releases there are."""
    terms = ShardContext(adult.policy, privacy, parameters, MEMBERS)
    (block,) = adult.blocks(len(adult))
    spent = []
    for _ in range(_RUNS):
        shard = Mondrian(terms, begun(terms, 0, bytes(32)))
        start = time.perf_counter()
        shard.push(block)
        shard.finish()
        spent.append(time.perf_counter() - start)
    counters = shard.counters
    return counters.loss_sum / counters.released, min(spent), counters.releases["cluster"]


def tables() -> Iterator[Table]:
    """Loss and time by cut, k and l; with people who come five times; and by windows; and long windows."""
    table = Table(
        f"Mondrian on Adult, 30,162 rows, ten quasi-identifiers (best of {_RUNS})",
        ["window", "cut", "k", "l", "subjects", "mean loss", "releases", "seconds", "to reach"],
    )
    plain = stream()
    people = plain.of_people(5)
    cuts: tuple[Literal["loss", "widest"], ...] = ("loss", "widest")
    for tuples, k, l, by in (  # noqa: E741
        (None, 10, 1, plain),
        (None, 10, 2, plain),
        (None, 10, 1, people),
        (None, 10, 2, people),
        (None, 5, 1, plain),
        (None, 50, 1, plain),
        (10_000, 10, 1, plain),
        (1_000, 10, 1, plain),
    ):
        for cut in cuts:
            parameters = MondrianParameters(ClosedBy(tuples), cut)
            loss, seconds, releases = run(by, Privacy(k, l), parameters)
            first = (tuples, k, l, by, cut) == (None, 10, 1, plain, "loss")
            aim = "loss 0.124, 0.5 s" if first else "-"
            subjects = "a tuple each" if by is plain else "5 tuples each"
            table.add(tuples or "all", cut, k, l, subjects, f"{loss:.4f}", releases, f"{seconds:.3f}", aim)
    yield table
    yield _long_windows(plain)


def _long_windows(adult: Stream) -> Table:
    table = Table(
        f"Long windows: Adult enlarged, k = 10, all of it one window that comes in blocks of {_BLOCK:,} (one run)",
        [
            "tuples",
            "microseconds a tuple to collect",
            "stored, bytes a tuple",
            "seconds to cut and release",
            "mean loss",
        ],
    )
    for tuples in (100_000, 1_000_000):
        stream = adult.enlarged(tuples)
        terms = ShardContext(stream.policy, Privacy(10), MondrianParameters(), MEMBERS)
        shard, written = Mondrian(terms, begun(terms, 0, bytes(32))), 0
        start = time.perf_counter()
        for block in stream.blocks(_BLOCK):
            changes = shard.push(block).changes
            assert changes is not None
            written += sum(len(blob or b"") for blob in changes.entries["blocks"].values())
        collected = time.perf_counter()
        shard.finish()
        cut = time.perf_counter() - collected
        loss = shard.counters.loss_sum / shard.counters.released
        each = f"{(collected - start) / tuples * 1e6:.2f}"
        table.add(f"{tuples:,}", each, f"{written / tuples:.1f}", f"{cut:.1f}", f"{loss:.4f}")
    return table
