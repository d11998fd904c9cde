"""UCI Adult as in the CASTLE paper: 30,162 complete rows, ten quasi-identifiers (Section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.attributes import Categorical, Numeric, by_name
from crenel.anonymity.model.hierarchy import load
from crenel.anonymity.model.policy import Policy
from crenel.state.block import NO_TIME, Block

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult"
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORICAL = ("education", "marital-status", "occupation", "native-country")
COLUMNS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
).split()
FOUR = ("age", "education-num", "hours-per-week", "occupation")
"""Quasi-identifiers of the streams with four attributes."""
SUHDSA_COLUMNS = ("education", "occupation", "native-country")
"""Quasi-identifiers of the SUHDSA paper (Section 4.1)."""
MEMBERS = pa.schema([("income", pa.string())])
REUSE = 1000
"""Generalizations that CASTLE keeps for reuse where it runs as in its paper."""


@dataclass(frozen=True)
class Stream:
    """Tuples as columns, as in ``crenel.state.block.Block``; without ``subject`` each tuple is its own person."""

    policy: Policy
    numeric: NDArray[np.float64]
    categorical: NDArray[np.int32]
    sensitive: NDArray[np.uint64]
    members: pa.RecordBatch
    subject: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.numeric)

    def blocks(self, size: int) -> list[Block]:
        """Return the stream in blocks of ``size`` tuples."""
        return [
            Block(
                shard=0,
                numeric=self.numeric[at : at + size],
                categorical=self.categorical[at : at + size],
                subject=None if self.subject is None else self.subject[at : at + size],
                sensitive=self.sensitive[at : at + size],
                event_time=np.full(len(self.numeric[at : at + size]), NO_TIME),
                members=self.members.slice(at, size),
            )
            for at in range(0, len(self), size)
        ]

    def enlarged(self, tuples: int, seed: int = 0) -> Stream:
        """Return a synthetic stream of the same shape: rows drawn anew, their numbers moved by 2 % of the range."""
        random = np.random.default_rng(seed)
        rows = random.integers(0, len(self), tuples)
        low, high = self.numeric.min(0), self.numeric.max(0)
        moved = self.numeric[rows] + random.normal(0, 0.02, (tuples, self.numeric.shape[1])) * (high - low)
        return replace(self.rows(rows), numeric=np.clip(moved, low, high).round())

    def rows(self, rows: NDArray[np.intp]) -> Stream:
        """Return a stream of some of the tuples, in the given order."""
        return replace(
            self,
            numeric=self.numeric[rows],
            categorical=self.categorical[rows],
            sensitive=self.sensitive[rows],
            members=self.members.take(pa.array(rows)),
            subject=None if self.subject is None else self.subject[rows],
        )

    def of_attributes(self, names: Sequence[str]) -> Stream:
        """Return the same tuples with some of the quasi-identifiers."""
        numeric = [i for i, attribute in enumerate(self.policy.numeric) if attribute.name in names]
        categorical = [i for i, attribute in enumerate(self.policy.categorical) if attribute.name in names]
        chosen = tuple(attribute for attribute in self.policy.attributes if attribute.name in names)
        return replace(
            self,
            policy=replace(self.policy, quasi_identifiers=by_name(chosen)),
            numeric=self.numeric[:, numeric].copy(),
            categorical=self.categorical[:, categorical].copy(),
        )

    def numbered(self) -> Stream:
        """Return the same tuples with the number of each as last published column, ``row``."""
        members = self.members.append_column("row", pa.array(np.arange(len(self))))
        return replace(self, policy=replace(self.policy, passthrough=("row",)), members=members)

    def of_people(self, each: int, seed: int = 0) -> Stream:
        """Return the same tuples as those of persons with ``each`` tuples, in random order."""
        random = np.random.default_rng(seed)
        hashes = random.integers(0, 2**64, -(-len(self) // each), np.uint64)
        person = random.permutation(len(self)) // each
        return replace(self, policy=replace(self.policy, subject="person"), subject=hashes[person])


def frame() -> pd.DataFrame:
    """Return the complete rows, in file order; raise FileNotFoundError where the data is not beside the project."""
    rows = pd.read_csv(DATA / "adult.data", header=None, names=COLUMNS, skipinitialspace=True, na_values="?")
    return rows.dropna().reset_index(drop=True)


def stream(attributes: int = 10) -> Stream:
    """Return Adult with the first ``attributes`` quasi-identifiers, observed domains, and income sensitive."""
    rows = frame()
    trees = {name: load(DATA / f"hierarchy_{name}.csv") for name in CATEGORICAL}
    chosen = (NUMERIC + CATEGORICAL)[:attributes]
    numeric = [name for name in chosen if name in NUMERIC]
    categorical = [name for name in chosen if name in CATEGORICAL]
    policy = Policy(
        {
            name: Numeric((float(rows[name].min()), float(rows[name].max())))
            if name in NUMERIC
            else Categorical(trees[name])
            for name in chosen
        },
        sensitive=("income",),
    )
    leaves = [pd.Index(trees[name].labels[: trees[name].leaves]).get_indexer(rows[name]) for name in categorical]
    income = rows["income"].to_numpy(object)
    return Stream(
        policy=policy,
        numeric=rows[numeric].to_numpy(np.float64),
        categorical=np.stack(leaves, axis=1).astype(np.int32) if leaves else np.zeros((len(rows), 0), np.int32),
        sensitive=pd.util.hash_array(income).reshape(-1, 1),
        members=pa.record_batch([pa.array(income, pa.string())], schema=MEMBERS),
    )
