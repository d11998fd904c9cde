"""Downstream tasks on releases, and the fairness of repairs over sex and race (SUHDSA, Sections 5.2 and 5.4).

The paper proposes both and reports neither. Income is predicted from the paper's three quasi-identifiers: a published
node is the shares of the leaves below it. The logistic regression and the k-means are the same for raw rows and all
releases; the test rows are raw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.adult import COLUMNS, DATA
from crenel.anonymity.algorithm import Shard, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.arrays import GONE
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.algorithms.suhdsa.stored import initial_snapshot
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import NONE
from experiments.harness import REUSE, Floats, Table, mean_interval, seeds
from experiments.suhdsa.baselines import Unrepaired
from experiments.suhdsa.tables import SEEDS, Stream, plain

_TEST = 0.3
_CLUSTERS = 8
_PENALTY = 1.0
_GROUPS = ("sex", "race")
METHODS = ("SUHDSA", "ours", "CASTLE", "nearest")


class Repaired(SuhdsaShard):
    """SUHDSA that records the positions of the tuples in groups that a repair changed."""

    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how)
        self.repaired: list[NDArray[np.int64]] = []
        whole = type(self)._run

        def recorded(*of: Any) -> tuple[int, int]:
            done, repairs = whole(*of)
            for i in range(max(repairs, 0)):
                action = self.arrays.actions[i]
                self.repaired += [self._members(int(action[name])) for name in ("group", "neighbor")]
            return done, repairs

        self._run = recorded  # type: ignore[misc]  # mypy takes it for the class's own

    def _members(self, group: int) -> NDArray[np.int64]:
        groups, following = self.arrays.groups, self.arrays.work.next
        slots = []
        slot = NONE if groups.state[group] == GONE else int(groups.head[group])
        while slot != NONE:
            slots.append(slot)
            slot = int(following[slot])
        return self.arrays.tuples.position[slots]


@dataclass(frozen=True)
class Outcome:
    """Releases of a stream.

    Attributes
    ----------
    rows : (released,) positions in the stream
    node : (released, attributes) published nodes of each hierarchy
    loss : (released,) InfoLoss
    repaired : (rows,) whether a repair changed the group that the tuple was released in
    """

    rows: NDArray[np.int64]
    node: NDArray[np.int32]
    loss: Floats
    repaired: NDArray[np.bool_]


def outcome(stream: Stream, method: str, k: int, window: int) -> Outcome:
    """Release a stream by a method with l = 2, and a delay of at most two windows."""
    policy = replace(stream.policy, passthrough=("row",))
    members = pa.record_batch([pa.array(stream.income), pa.array(np.arange(len(stream.income)))], ["income", "row"])
    shard = _shard(policy, Privacy(k, 2), method, window, members.schema)
    blocks = stream.blocks(2000)
    steps, at = [], 0
    for block in blocks:
        steps.append(shard.push(replace(block, members=members.slice(at, len(block)))).releases)
        at += len(block)
    steps.append(shard.finish().releases)
    rows = np.concatenate([np.array(some.members[1], np.int64) for some in steps])
    repaired = np.zeros(len(stream.income), np.bool_)
    if isinstance(shard, Repaired):
        for some in shard.repaired:
            repaired[some] = True
    released = np.zeros(len(repaired), np.bool_)
    released[rows] = True
    return Outcome(
        rows,
        np.concatenate([np.repeat(some.node, some.tuples, axis=0) for some in steps]),
        np.concatenate([np.repeat(some.loss, some.tuples) for some in steps]),
        repaired & released,
    )


def _shard(policy: Any, privacy: Privacy, method: str, window: int, schema: pa.Schema) -> Shard:
    if method in ("CASTLE", "nearest"):
        delay = 2 * window
        algorithm = Castle(Delay(delay), reuse_limit=REUSE) if method == "CASTLE" else Nearest(Delay(delay))
        context = ShardContext(policy, privacy, algorithm, schema, remembers=False)
        return algorithm.new(context, 0, bytes(32))
    context = ShardContext(policy, privacy, Suhdsa(window), schema, remembers=False)
    return (Repaired if method == "ours" else Unrepaired)(context, initial_snapshot(context, 0, bytes(32)))


def features(stream: Stream, node: NDArray[np.int32]) -> Floats:
    """Return the share of each leaf below each published node, (rows, leaves of all attributes)."""
    columns = []
    for a, attribute in enumerate(stream.policy.categorical):
        tree, leaf = attribute.hierarchy, np.arange(attribute.hierarchy.leaves)
        first, last = tree.first[node[:, a]][:, None], tree.last[node[:, a]][:, None]
        inside = (first <= leaf) & (leaf <= last)
        columns.append(inside / inside.sum(axis=1, keepdims=True))
    return np.concatenate(columns, axis=1)


def fitted(features: Floats, positive: Floats, negative: Floats) -> Callable[[Floats], Floats]:
    """Return a function from features to log odds: a logistic regression with an L2 penalty, by L-BFGS.

    Parameters
    ----------
    positive, negative : (rows,) number of examples of either label with these features
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    x = np.hstack([features, np.ones((len(features), 1))])

    def cost(weights: Floats) -> tuple[float, Floats]:
        odds = x @ weights
        pull = np.append(weights[:-1], 0.0) * _PENALTY
        slope = ((positive + negative) * expit(odds) - positive) @ x
        error = positive @ np.logaddexp(0, -odds) + negative @ np.logaddexp(0, odds)
        return float(error + (pull @ weights) / 2), slope + pull

    weights = minimize(cost, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return lambda some: some @ weights[:-1] + weights[-1]


def auroc(score: Floats, labels: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve: the share of pairs in the right order, ties half."""
    from scipy.stats import rankdata

    positive = int(labels.sum())
    ranks = rankdata(score)[labels == 1].sum() - positive * (positive + 1) / 2
    return float(ranks / (positive * (len(labels) - positive)))


def f1(predicted: NDArray[np.bool_], labels: NDArray[np.int64]) -> float:
    """Return the harmonic mean of precision and recall of the label 1; 0 where no prediction is right."""
    right = int((predicted & (labels == 1)).sum())
    return 2 * right / (int(predicted.sum()) + int(labels.sum())) if right else 0.0


def adjusted_rand(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Return the agreement of two clusterings: 1 for equal ones, 0 by chance (Hubert and Arabie 1985)."""
    table = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(table, (one, other), 1)

    def pairs(counts: Floats) -> float:
        return float((counts * (counts - 1)).sum() / 2)

    both, mine, its = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    chance = mine * its / pairs(np.array([float(len(one))]))
    most = (mine + its) / 2
    return (both - chance) / (most - chance) if most != chance else 1.0


def clusters(features: Floats, seed: int) -> NDArray[np.int64]:
    """Return the cluster of each row by k-means."""
    from scipy.cluster.vq import kmeans2

    found: NDArray[np.int64] = kmeans2(features, _CLUSTERS, minit="++", seed=np.random.default_rng(seed))[1]
    return found


def scores(stream: Stream, tested: Stream, node: NDArray[np.int32], rows: NDArray[np.int64], seed: int) -> list[float]:
    """Return AUROC, F1 of the higher income, and the agreement of clusters with those of the same raw rows.

    The predicted share of higher incomes is that of the training rows, so that F1 compares orders, not thresholds.
    """
    labels = stream.income[rows]
    different, which = np.unique(node, axis=0, return_inverse=True)
    distinct, which = features(stream, different), which.reshape(-1)
    counts = [np.bincount(which[labels == label], minlength=len(different)).astype(np.float64) for label in (1, 0)]
    score = fitted(distinct, *counts)(features(tested, tested.leaves))
    predicted = score > np.quantile(score, 1 - labels.mean())
    same = adjusted_rand(clusters(distinct[which], seed), clusters(features(stream, stream.leaves[rows]), seed))
    return [auroc(score, tested.income), f1(predicted, tested.income), same]


def downstream_table(k: int, window: int) -> Table:
    """Tabulate the scores of raw rows and of releases."""
    table = Table(
        f"Downstream tasks at k = {k}, l = 2 and window {window} (mean and 95 % confidence interval)",
        ["trained on", "AUROC", "F1 of the higher income", "adjusted Rand index", "loss", "suppressed, %"],
    )
    found: dict[str, list[list[float]]] = {name: [] for name in ("raw rows", *METHODS)}
    for seed in seeds(SEEDS):
        whole = plain(seed)
        cut = round(len(whole.income) * _TEST)
        tested, stream = (replace(whole, leaves=whole.leaves[of], income=whole.income[of]) for of in _halves(cut))
        every = np.arange(len(stream.income))
        # Other initial centers: the agreement of k-means with itself.
        own = adjusted_rand(*(clusters(features(stream, stream.leaves), start) for start in (seed, seed + 100)))
        found["raw rows"].append([*scores(stream, tested, stream.leaves, every, seed)[:2], own, 0.0, 0.0])
        for method in METHODS:
            made = outcome(stream, method, k, window)
            lost = 100 * (1 - len(made.rows) / len(every))
            found[method].append([*scores(stream, tested, made.node, made.rows, seed), float(made.loss.mean()), lost])
    for name, runs in found.items():
        columns = list(zip(*runs, strict=True))
        table.add(name, *(mean_interval(column, ".2f" if i == 4 else ".3f") for i, column in enumerate(columns)))
    return table


def _halves(cut: int) -> tuple[slice, slice]:
    return slice(cut), slice(cut, None)


@cache
def _people() -> pd.DataFrame:
    return pd.read_csv(DATA / "adult.data", header=None, names=COLUMNS, skipinitialspace=True)[list(_GROUPS)]


def people(seed: int) -> pd.DataFrame:
    """Return sex and race of each tuple of ``plain(seed)``."""
    return _people().iloc[np.random.default_rng(seed).permutation(len(_people()))].reset_index(drop=True)


def fairness_table(k: int, window: int) -> Table:
    """Tabulate repairs, suppression and loss by sex and race."""
    table = Table(
        f"Repairs by sex and race at k = {k}, l = 2 and window {window} (mean and 95 % confidence interval)",
        ["persons", "rows", "repaired, %", "suppressed, %", "loss", "loss without repair", "of nearest", "of CASTLE"],
    )
    found: dict[tuple[str, str], list[list[float]]] = {}
    for seed in seeds(SEEDS):
        stream, whose = plain(seed), people(seed)
        made = {method: outcome(stream, method, k, window) for method in METHODS}
        for column in _GROUPS:
            for value in whose[column].unique():
                rows = np.flatnonzero(whose[column] == value)
                ours = made["ours"]
                cells = [
                    100 * float(ours.repaired[rows].mean()),
                    100 * (1 - float(np.isin(rows, ours.rows).mean())),
                    *(_loss(made[name], rows) for name in ("ours", "SUHDSA", "nearest", "CASTLE")),
                ]
                found.setdefault((column, str(value)), []).append(cells)
    for (column, value), runs in found.items():
        number = int((_people()[column] == value).sum())
        columns = list(zip(*runs, strict=True))
        shown = [mean_interval(of, ".2f" if i < 2 else ".3f") for i, of in enumerate(columns)]
        table.add(f"{column}: {value}", f"{number:,}", *shown)
    return table


def _loss(made: Outcome, rows: NDArray[np.intp]) -> float:
    return float(made.loss[np.isin(made.rows, rows)].mean())


def results() -> Iterator[Table]:
    """Yield all tables of this module."""
    for k, window in ((10, 50), (3, 100)):
        yield downstream_table(k, window)
    for k, window in ((3, 100), (10, 50)):
        yield fairness_table(k, window)
