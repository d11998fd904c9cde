"""Streams of several kinds, each with a setting of its own (docs/decisions/0010-rules-of-nearest.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks import adult
from benchmarks.adult import FOUR
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import load
from crenel.anonymity.model.policy import Policy
from experiments.harness import ROOT, Stream, demo_visits, pima_stream, seeds, taxi_stream

_HIERARCHIES = ROOT / "conf" / "hierarchies"
_SHARDS = 4
_ROWS = 50_000


@dataclass(frozen=True)
class StreamSetting:
    """A stream, with the privacy settings and the delay of its runs.

    Attributes
    ----------
    name : for tables
    k, l, delay : privacy settings, and the delay in tuples
    shuffled : each seed has an order of its own, for short streams, which also have more seeds
    """

    name: str
    tuples: Stream
    k: int
    l: int  # noqa: E741
    delay: int
    shuffled: bool = False

    @property
    def seeds(self) -> range:
        """Return the seeds of the runs."""
        return seeds(10 if self.shuffled else 3)

    def of(self, seed: int) -> Stream:
        """Return the stream of a seed."""
        if not self.shuffled:
            return self.tuples
        return self.tuples.rows(np.random.default_rng(seed).permutation(len(self.tuples)))


def settings() -> list[StreamSetting]:
    """Return all streams with their settings."""
    ten = adult.stream()
    return [
        StreamSetting("Adult, 10 attributes", ten, 10, 1, 1000),
        StreamSetting("Adult, 4 attributes", ten.of_attributes(FOUR), 50, 1, 1000),
        StreamSetting("taxi", taxi_stream(), 10, 1, 200, shuffled=True),
        StreamSetting("Pima", pima_stream(), 5, 1, 200, shuffled=True),
        StreamSetting("demo", demo(), 10, 2, 200),
    ]


def demo(shards: int = _SHARDS) -> Stream:
    """Return one of the shards of the demo's stream, without rejected rows.

    The domain of the salary is the range of the stream; the demo declares none.
    """
    rows = demo_visits(_ROWS)
    trees = {name: load(_HIERARCHIES / f"{name}.csv") for name in ("area", "education")}
    salary = pd.to_numeric(rows["salary"], errors="coerce")
    person = pd.util.hash_array(rows["person"].to_numpy(object))
    kept = rows["age"].between(18, 100) & salary.notna() & (person % np.uint64(shards) == 0)
    for name, tree in trees.items():
        kept &= rows[name].isin(tree.labels[: tree.leaves])
    rows, person = rows[kept].assign(salary=salary[kept]), person[kept.to_numpy()]
    leaves = [pd.Index(tree.labels[: tree.leaves]).get_indexer(rows[name]) for name, tree in trees.items()]
    diagnosis = rows["diagnosis"].to_numpy(object)
    return Stream(
        policy=Policy(
            {
                "age": Numeric((18, 100)),
                "salary": Numeric((float(rows["salary"].min()), float(rows["salary"].max()))),
                **{name: Categorical(tree) for name, tree in trees.items()},
            },
            sensitive=("diagnosis",),
            subject="person",
        ),
        numeric=rows[["age", "salary"]].to_numpy(np.float64),
        categorical=np.stack(leaves, axis=1).astype(np.int32),
        sensitive=pd.util.hash_array(diagnosis).reshape(-1, 1),
        members=pa.record_batch([pa.array(diagnosis, pa.string())], names=["diagnosis"]),
        subject=person,
    )
