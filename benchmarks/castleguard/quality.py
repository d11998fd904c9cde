"""What classifiers learn from Pima when it is released by CASTLEGUARD (Section VI-C)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.adult import REUSE
from benchmarks.castleguard.loss import spread
from benchmarks.castleguard.streams import PIMA, SEEDS, Floats, pima, run, stream
from benchmarks.table import Table
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise

Setting: TypeAlias = tuple[float, float] | str
"""``raw``: trained on raw rows; ``castle``: on releases without sampling and noise; or (sample_rate, phi)."""

RATES = (0.25, 0.5, 0.75, 1.0)
PHIS = (1.0, 10.0, 100.0, 1000.0)
CLASSIFIERS = ("k-NN", "network")
PAPER: dict[tuple[str, Setting], str] = {
    ("k-NN", "raw"): "0.549",
    ("k-NN", (0.25, 100.0)): "0.659",
    ("network", "raw"): "0.706",
    ("network", (0.5, 100.0)): "0.684",
}
"""The accuracies that the paper gives as numbers, by classifier and setting."""

_LABEL = "outcome"
_TEST = 0.3
_NEIGHBORS = 25
_HIDDEN = 16
_PRIVACY = Privacy(7)
_PARAMETERS = CastleParameters(delay_tuples=100, max_clusters=25, loss_window=100, reuse_limit=REUSE)

Labels: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """What a classifier is trained on or tested with.

    Attributes
    ----------
    features : (rows, 2 x attributes) minima of all attributes, then maxima
    labels : (rows,) 0 or 1
    """

    features: Floats
    labels: Labels


@dataclass(frozen=True)
class Scores:
    """Accuracy and area under the ROC curve, one of each a seed."""

    accuracy: tuple[float, ...]
    auc: tuple[float, ...]


def raw(rows: pd.DataFrame) -> Sample:
    """Rows as they are: minimum and maximum are the value."""
    values = rows[[a.name for a in PIMA]].to_numpy(np.float64)
    return Sample(np.hstack([values, values]), rows[_LABEL].to_numpy(np.int64))


def published(releases: Iterable[Releases]) -> Sample:
    """Released tuples, each with the intervals of its release and its own label."""
    features, labels = [], []
    for some in releases:
        features.append(np.repeat(np.hstack([some.lower, some.upper]), some.tuples, axis=0))
        labels.append(np.array(some.members[0], np.int64))
    return Sample(np.concatenate(features), np.concatenate(labels))


def split(rows: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to train on, in the order in which they are streamed, and 30 % of each label to test with."""
    order = np.random.default_rng(seed).permutation(len(rows))
    shuffled = rows.iloc[order]
    rank = shuffled.groupby(_LABEL).cumcount()
    tested = rank < shuffled.groupby(_LABEL)[_LABEL].transform("size") * _TEST
    return shuffled[~tested], shuffled[tested]


def classifier(name: str, seed: int) -> Any:
    """An untrained classifier, on features scaled to mean 0 and variance 1 of what it is trained on."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "k-NN":
        return make_pipeline(StandardScaler(), KNeighborsClassifier(_NEIGHBORS))
    network = MLPClassifier((_HIDDEN,), solver="lbfgs", alpha=1.0, max_iter=2000, random_state=seed)
    return make_pipeline(StandardScaler(), network)


@cache
def scores(name: str, setting: Setting) -> Scores:
    """How a classifier does on raw test rows after training."""
    from sklearn.metrics import roc_auc_score

    accuracy, auc = [], []
    for seed in SEEDS:
        train, test = split(pima(), seed)
        learned = raw(train) if setting == "raw" else _released(train, setting, seed)
        tested = raw(test)
        made = classifier(name, seed).fit(learned.features, learned.labels)
        accuracy.append(float(made.score(tested.features, tested.labels)))
        auc.append(float(roc_auc_score(tested.labels, made.predict_proba(tested.features)[:, 1])))
    return Scores(tuple(accuracy), tuple(auc))


def _released(train: pd.DataFrame, setting: Setting, seed: int) -> Sample:
    noise = None if isinstance(setting, str) else SamplingAndNoise(*setting)
    return published(run(stream(train, PIMA, _LABEL), _PRIVACY, _PARAMETERS, noise, seed).releases)


def quality_table(name: str) -> Table:
    """Accuracy and AUC of one classifier over sample_rate and phi."""
    table = Table(
        f"Quality of {name} on Pima (k = 7, l = 1, delta = 100, max_clusters 25, loss_window 100; five splits)",
        ["trained on", "sample_rate", "phi", "accuracy", "AUC", "accuracy in the paper"],
    )
    rows: list[tuple[str, Setting]] = [("raw rows", "raw"), ("CASTLE's releases", "castle")]
    rows += [("CASTLEGUARD's releases", (rate, phi)) for rate in RATES for phi in PHIS]
    for trained, setting in rows:
        found = scores(name, setting)
        rate, phi = ("", "") if isinstance(setting, str) else (f"{setting[0]:g}", f"{setting[1]:,g}")
        paper = PAPER.get((name, setting), "")
        table.add(trained, rate, phi, spread(found.accuracy), spread(found.auc), paper)
    return table


def commoner_share() -> float:
    """The accuracy of predicting the commoner label always."""
    share = pima()[_LABEL].mean()
    return float(max(share, 1 - share))


def agreement(predicted: Labels, labels: Labels) -> float:
    """Share of predictions that are the label at the same position; of labels, only so many are looked at."""
    return float(np.mean(predicted == labels[: len(predicted)]))


def baseline_table() -> Table:
    """Where the paper's 54.87 % for k-NN on raw data comes from.

    As in its authors' repository: ten folds of consecutive rows, raw columns with the label among them, mean of 10, 15,
    ..., 50 neighbors.
    """
    from sklearn.model_selection import KFold
    from sklearn.neighbors import KNeighborsClassifier

    rows = pima().to_numpy(np.float64)
    labels = pima()[_LABEL].to_numpy(np.int64)
    right, wrong = [], []
    for neighbors in range(10, 51, 5):
        for train, test in KFold(10).split(rows):
            predicted = KNeighborsClassifier(neighbors).fit(rows[train], labels[train]).predict(rows[test])
            right.append(agreement(predicted, labels[test]))
            wrong.append(agreement(predicted, labels[train]))
    table = Table(
        "k-NN on raw Pima rows as in the authors' repository", ["predictions compared with", "accuracy", "paper"]
    )
    table.add("labels of the rows that were predicted", f"{np.mean(right):.4f}", "")
    table.add("labels of training rows, by position", f"{np.mean(wrong):.4f}", "0.5487")
    table.add("(predicting the commoner label always)", f"{commoner_share():.4f}", "")
    return table


def tables() -> list[Table]:
    """All tables of this file."""
    return [*(quality_table(name) for name in CLASSIFIERS), baseline_table()]
