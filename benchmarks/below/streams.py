"""The streams on which rules are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks import adult
from benchmarks.adult import Stream
from benchmarks.castleguard.streams import PIMA, TAXI, pima, taxi
from benchmarks.castleguard.streams import stream as stream_of
from benchmarks.nearest import FOUR, of_attributes
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import load
from crenel.anonymity.model.policy import Policy
from crenel.jobs.cli import synthetic

_HIERARCHIES = Path(__file__).resolve().parents[2] / "conf" / "hierarchies"
_SHARDS = 4
_ROWS = 50_000


@dataclass(frozen=True)
class Setting:
    """A stream, and what is asked of it.

    Attributes
    ----------
    name : for a table
    tuples : the stream
    k, l, delay : as of ``Rule``
    shuffled : whether each seed has an order of its own, and there are more of them: of few rows one order says little
    """

    name: str
    tuples: Stream
    k: int
    l: int  # noqa: E741
    delay: int
    shuffled: bool = False

    @property
    def seeds(self) -> range:
        """Of the runs."""
        return range(10 if self.shuffled else 3)

    def of(self, seed: int) -> Stream:
        """The stream of a seed."""
        if not self.shuffled:
            return self.tuples
        tuples, rows = self.tuples, np.random.default_rng(seed).permutation(len(self.tuples))
        return replace(
            tuples,
            numeric=tuples.numeric[rows],
            categorical=tuples.categorical[rows],
            sensitive=tuples.sensitive[rows],
            members=tuples.members.take(pa.array(rows)),
            subject=None if tuples.subject is None else tuples.subject[rows],
        )


def settings() -> list[Setting]:
    """All of them; raises FileNotFoundError where the data is not beside the project."""
    ten = adult.stream()
    return [
        Setting("Adult, 10 attributes", ten, 10, 1, 1000),
        Setting("Adult, 4 attributes", of_attributes(ten, FOUR), 50, 1, 1000),
        Setting("taxi", stream_of(taxi(), TAXI, "FareAmount", "pid"), 10, 1, 200, shuffled=True),
        Setting("Pima", stream_of(pima(), PIMA, "outcome"), 5, 1, 200, shuffled=True),
        Setting("demo", demo(), 10, 2, 200),
    ]


def demo() -> Stream:
    """One of the four shards of the demo's stream, without the rows that it rejects.

    The salary has the range of the stream as its domain, where the demo has none.
    """
    with TemporaryDirectory() as folder:
        synthetic.write(Path(folder) / "stream.csv", _ROWS)
        rows = pd.read_csv(
            Path(folder) / "stream.csv", names=list(synthetic.COLUMNS), na_values=[""], keep_default_na=False
        )
    trees = {name: load(_HIERARCHIES / f"{name}.csv") for name in ("area", "education")}
    salary = pd.to_numeric(rows["salary"], errors="coerce")
    person = pd.util.hash_array(rows["person"].to_numpy(object))
    kept = rows["age"].between(18, 100) & salary.notna() & (person % np.uint64(_SHARDS) == 0)
    for name, tree in trees.items():
        kept &= rows[name].isin(tree.labels[: tree.leaves])
    rows, person = rows[kept].assign(salary=salary[kept]), person[kept.to_numpy()]
    leaves = [pd.Index(tree.labels[: tree.leaves]).get_indexer(rows[name]) for name, tree in trees.items()]
    diagnosis = rows["diagnosis"].to_numpy(object)
    return Stream(
        policy=Policy(
            (
                Numeric("age", (18, 100)),
                Numeric("salary", (float(rows["salary"].min()), float(rows["salary"].max()))),
                *(Categorical(name, tree) for name, tree in trees.items()),
            ),
            sensitive=("diagnosis",),
            subject="person",
        ),
        numeric=rows[["age", "salary"]].to_numpy(np.float64),
        categorical=np.stack(leaves, axis=1).astype(np.int32),
        sensitive=pd.util.hash_array(diagnosis).reshape(-1, 1),
        members=pa.record_batch([pa.array(diagnosis, pa.string())], names=["diagnosis"]),
        subject=person,
    )
