"""OLA in the core, on UCI Adult as (k, epsilon)-anonymity has it: year of birth, gender, race and marital status."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.adult import MEMBERS, frame
from benchmarks.table import Table
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.batch.stored import begun
from crenel.anonymity.algorithms.ola.parameters import OlaParameters
from crenel.anonymity.algorithms.ola.shard import Ola
from crenel.anonymity.model.attributes import Categorical
from crenel.anonymity.model.builders.numbers import Numbers
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME, Block

_RUNS = 3
_YEAR = 1994


def _attributes(rows: pd.DataFrame) -> list[tuple[Categorical, pd.Series[str]]]:
    """The hierarchies of Table I, and the values of their columns."""
    born = _YEAR - rows["age"]
    years = Numbers((float(born.min()), float(born.max())), (1.0, 2.0, 4.0, 8.0), origin=float(born.min()))
    married = rows["marital-status"].str.startswith("Married").map({True: "in marriage", False: "alone"})
    status = {(own, above, "*") for own, above in zip(rows["marital-status"], married, strict=True)}
    trees: dict[str, Sequence[tuple[str, ...]]] = {
        "born": years.paths(),
        "sex": [(name, "person") for name in sorted(rows["sex"].unique())],
        "race": [(name, "*") for name in sorted(rows["race"].unique())],
        "marital-status": sorted(status),
    }
    columns = {"born": born.astype(str), **{name: rows[name] for name in ("sex", "race", "marital-status")}}
    return [(Categorical(name, from_paths(paths)), columns[name]) for name, paths in trees.items()]


def tables() -> Iterator[Table]:
    """Time, suppression and loss by k and metric."""
    rows = frame()
    attributes = _attributes(rows)
    policy = Policy(tuple(attribute for attribute, _ in attributes), sensitive=("income",))
    leaves = [
        pd.Index(attribute.hierarchy.labels[: attribute.hierarchy.leaves]).get_indexer(values)
        for attribute, values in attributes
    ]
    income = rows["income"].to_numpy(object)
    block = Block(
        shard=0,
        numeric=np.zeros((len(rows), 0)),
        categorical=np.stack(leaves, axis=1).astype(np.int32),
        subject=None,
        sensitive=pd.util.hash_array(income).reshape(-1, 1),
        event_time=np.full(len(rows), NO_TIME),
        members=pa.record_batch([pa.array(income, pa.string())], schema=MEMBERS),
    )
    table = Table(
        f"OLA on Adult, {len(rows):,} rows, four quasi-identifiers, 5 % suppressed at most (best of {_RUNS})",
        ["k", "metric", "mean loss", "releases", "suppressed", "seconds", "to reach"],
    )
    metrics: tuple[Literal["precision", "discernibility", "entropy"], ...] = ("precision", "discernibility", "entropy")
    for k in (2, 5, 10, 20, 50, 100):
        for metric in metrics:
            terms = ShardContext(policy, Privacy(k), OlaParameters(metric=metric), MEMBERS)
            spent = []
            for _ in range(_RUNS):
                shard = Ola(terms, begun(terms, 0, bytes(32)))
                start = time.perf_counter()
                shard.push(block)
                shard.finish()
                spent.append(time.perf_counter() - start)
            counters = shard.counters
            withheld = sum(counters.suppressed.values()) / len(rows)
            loss, released = counters.loss_sum / counters.released, counters.releases["cluster"]
            table.add(k, metric, f"{loss:.4f}", released, f"{withheld:.2%}", f"{min(spent):.3f}", "1 s")
    yield table
