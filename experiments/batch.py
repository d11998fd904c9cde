"""Mondrian and OLA on Adult as one window: loss, suppression and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import prod
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.adult import DATA, MEMBERS, frame, stream
from benchmarks.measure import BLOCK
from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.algorithms.batch.stored import initial_snapshot
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.ola.lattice import Node
from crenel.anonymity.algorithms.ola.shard import OlaShard
from crenel.anonymity.model.attributes import Categorical, by_name
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.hierarchy import from_paths, load
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME, Block
from experiments.harness import Replay, Stream, Table, replay
from experiments.kepsilon.populations import adult

_RUNS = 3

_ROWS = 3000
"""Rows of the window on which the tested nodes of OLA's lattice are counted."""

_CATEGORIES = ("age", "workclass", "education", "marital-status", "race", "sex", "native-country")
"""Attributes of this lattice with the hierarchies of the data set."""

_STEPS = {"hours-per-week": (5, 10, 20), "fnlwgt": (10_000, 20_000, 40_000, 80_000, 160_000, 320_000)}
"""Its numbers, with the widths of their levels."""


def _fastest(tuples: Stream, algorithm: Algorithm, privacy: Privacy) -> Replay:
    return min((replay(tuples, algorithm, privacy) for _ in range(_RUNS)), key=lambda run: run.seconds)


def mondrian() -> Iterator[Table]:
    """Tabulate loss and time of Mondrian by cut, k, l and window; and of long windows."""
    table = Table(
        f"Mondrian on Adult, 30,162 rows, ten quasi-identifiers (best of {_RUNS})",
        ["window", "cut", "k", "l", "subjects", "mean loss", "releases", "seconds"],
    )
    plain = stream()
    people = plain.of_people(5)
    cuts: tuple[Literal["loss", "widest"], ...] = ("loss", "widest")
    for tuples, k, diversity, by in (
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
            run = _fastest(by, Mondrian(Window(tuples), cut), Privacy(k, diversity))
            subjects = "a tuple each" if by is plain else "5 tuples each"
            releases = run.counters.releases["cluster"]
            table.add(tuples or "all", cut, k, diversity, subjects, f"{run.loss:.4f}", releases, f"{run.seconds:.3f}")
    yield table
    yield _long_windows(plain)


def _long_windows(adult: Stream) -> Table:
    table = Table(
        f"Long windows: Adult enlarged, k = 10, all of it one window in blocks of {BLOCK:,} (one run)",
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
        context = ShardContext(stream.policy, Privacy(10), Mondrian(), MEMBERS)
        shard, written = Mondrian.new(context, 0, bytes(32)), 0
        start = time.perf_counter()
        for block in stream.blocks(BLOCK):
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


def ola() -> Iterator[Table]:
    """Tabulate loss, suppression and time of OLA by k and metric, with the hierarchies of (k, epsilon)-anonymity."""
    people = adult()
    policy = people.policy(by_levels=True, noised=True)
    block = people.block(policy)
    income = frame()["income"].to_numpy(object)
    tuples = Stream(
        Policy(policy.quasi_identifiers, sensitive=("income",)),
        block.numeric,
        block.categorical,
        pd.util.hash_array(income).reshape(-1, 1),
        pa.record_batch([pa.array(income, pa.string())], schema=MEMBERS),
    )
    table = Table(
        f"OLA on Adult, {len(people):,} rows, four quasi-identifiers, 5 % suppressed at most (best of {_RUNS})",
        ["k", "metric", "mean loss", "releases", "suppressed", "seconds"],
    )
    metrics: tuple[Literal["precision", "discernibility", "entropy"], ...] = ("precision", "discernibility", "entropy")
    for k in (2, 5, 10, 20, 50, 100):
        for metric in metrics:
            run = _fastest(tuples, Ola(metric=metric), Privacy(k))
            releases = run.counters.releases["cluster"]
            table.add(k, metric, f"{run.loss:.4f}", releases, f"{run.suppressed:.2%}", f"{run.seconds:.3f}")
    yield table
    yield _combinations()


class _Counted(OlaShard):
    """Shard that counts the nodes it tests."""

    tested = 0

    def _classes(self, node: Node) -> Any:
        self.tested += 1
        return super()._classes(node)


def _combinations() -> Table:
    """Tabulate the tested nodes of a large lattice: seven categories and two numbers, of random rows."""
    rows = frame().sample(_ROWS, random_state=0)
    attributes = [Categorical(load(DATA / f"hierarchy_{name}.csv")).named(name) for name in _CATEGORIES]
    for name, steps in _STEPS.items():
        paths = [(f"{n}", *(f"{step}:{n // step}" for step in steps), "*") for n in sorted(set(rows[name]))]
        attributes.append(Categorical(from_paths(paths)).named(name))
    leaves = [
        pd.Index(a.hierarchy.labels[: a.hierarchy.leaves]).get_indexer(rows[a.name].astype(str)) for a in attributes
    ]
    levels = prod(len(attribute.hierarchy.level_nodes()) for attribute in attributes)
    occupation = rows["occupation"].to_numpy(object)
    block = Block(
        shard=0,
        numeric=np.zeros((_ROWS, 0)),
        categorical=np.stack(leaves, axis=1).astype(np.int32),
        subject=None,
        sensitive=pd.util.hash_array(occupation).reshape(-1, 1),
        event_time=np.full(_ROWS, NO_TIME),
        members=pa.record_batch({"occupation": occupation}),
    )
    models: dict[str, dict[str, Any]] = {
        "k alone": {},
        "alpha 0.3": {"alpha": 0.3},
        "entropy_l 2": {"entropy_l": 2.0},
        "recursive 2, 2": {"recursive": {"c": 2.0, "l": 2}},
        "t 0.2": {"t": 0.2},
        "beta 2": {"beta": 2.0},
    }
    table = Table(
        f"OLA on Adult, {_ROWS:,} random rows: tested combinations of {levels:,}, of nine attributes, by entropy",
        ["k", "suppressed at most", *models],
    )
    policy, members = Policy(by_name(attributes), sensitive=("occupation",)), block.members.schema
    for k in (2, 5, 20):
        for most in (0.0, 0.05):
            found = []
            for further in models.values():
                context = ShardContext(policy, Privacy(k, models=further), Ola(max_suppression=most), members)
                shard = _Counted(context, initial_snapshot(context, 0, bytes(32)))
                shard.push(block)
                shard.finish()
                found.append(f"{shard.tested:,}")
            table.add(k, f"{most:.0%}", *found)
    return table
