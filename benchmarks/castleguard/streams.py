"""The paper's two data sets as tuples, and a run of one shard over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.adult import Stream
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.algorithms.castle.shard import Castle
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.stored_shard import begun
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise

Floats: TypeAlias = NDArray[np.float64]

SEEDS = range(5)

TAXI = (Numeric("PickupLocationID", (1, 265), 1), Numeric("TripDistance", (0, 50), 0.01))
"""Taxi zones are numbered from 1 to 265; trips are recorded in hundredths of a mile."""

PIMA = (
    Numeric("pregnancies", (0, 20), 1),
    Numeric("glucose", (0, 200), 1),
    Numeric("bloodPressure", (0, 150), 1),
    Numeric("skinThickness", (0, 100), 1),
    Numeric("insulin", (0, 900), 1),
    Numeric("bmi", (0, 70), 0.1),
    Numeric("diabetesPedigree", (0, 3), 0.001),
    Numeric("age", (18, 90), 1),
)
"""Each step is the last digit that its column is recorded with; 0 also stands for what was not measured."""

_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
_ALL = 10**6  # tuples in a block: more than any stream here has


@dataclass(frozen=True)
class Run:
    """What left in one run, and information loss in [0, 1], computed in four ways.

    Attributes
    ----------
    released : mean of released tuples, each with the loss of its release
    per_release : mean of releases, however many tuples they hold
    tau : mean of the last ``loss_window`` releases when the last tuple has come in
    still_open : mean of the clusters that are open at that time, of whatever size
    suppressed : share of the tuples let in
    """

    releases: list[Releases]
    released: float
    per_release: float
    tau: float
    still_open: float
    suppressed: float


def stream(
    rows: pd.DataFrame,
    attributes: Sequence[Numeric],
    sensitive: str,
    subject: str | None = None,
    *,
    declared: bool = True,
) -> Stream:
    """Rows in their order as tuples with numeric quasi-identifiers; not ``declared``: without their domains."""
    chosen = tuple(attributes if declared else (Numeric(a.name, None, a.step) for a in attributes))
    values = rows[sensitive].to_numpy()
    return Stream(
        policy=Policy(chosen, sensitive=(sensitive,), subject=subject),
        numeric=rows[[a.name for a in chosen]].to_numpy(np.float64),
        categorical=np.zeros((len(rows), 0), np.int32),
        sensitive=pd.util.hash_array(values).reshape(-1, 1),
        members=pa.record_batch([pa.array(values)], names=[sensitive]),
        subject=None if subject is None else pd.util.hash_array(rows[subject].to_numpy()),
    )


def taxi() -> pd.DataFrame:
    """The 1,000 trips in file order; raises FileNotFoundError where the data is not beside the project."""
    return pd.read_csv(_DATA / "taxi" / "yellow_2019-01_sample1000.csv")


def pima() -> pd.DataFrame:
    """The 768 women in file order; raises FileNotFoundError where the data is not beside the project."""
    return pd.read_csv(_DATA / "pima" / "diabetes.csv")


def run(
    tuples: Stream, privacy: Privacy, parameters: CastleParameters, noise: SamplingAndNoise | None, seed: int
) -> Run:
    """Push a stream through one shard, to the end."""
    terms = ShardContext(tuples.policy, privacy, parameters, tuples.members.schema, noise)
    castle = Castle(terms, begun(terms, 0, bytes([seed]) * 32), remembers=False)
    releases = [castle.push(block).releases for block in tuples.blocks(_ALL)]
    still_open, tau = _open_losses(castle), castle.counters.tau
    releases.append(castle.finish().releases)
    counters = castle.counters
    return Run(
        releases,
        released=counters.loss_sum / max(counters.released, 1),
        per_release=float(np.mean(np.concatenate([r.loss for r in releases]))),
        tau=tau,
        still_open=float(np.mean(still_open)),
        suppressed=sum(counters.suppressed.values()) / max(counters.tuples_in, 1),
    )


def _open_losses(castle: Castle) -> Floats:
    arrays = castle.arrays
    box, rows = arrays.clusters.box, arrays.clusters.rows[: arrays.now.open]
    widths: Floats = (box.upper[rows] - box.lower[rows]) / (arrays.domain.upper - arrays.domain.lower)
    losses: Floats = widths.mean(axis=1)
    return losses
