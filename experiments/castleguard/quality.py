"""Accuracy of classifiers that are trained on CASTLEGUARD's releases of Pima (Section VI-C)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from experiments.castleguard.loss import SEEDS, run
from experiments.harness import (
    PIMA,
    REUSE,
    Drawing,
    Floats,
    Table,
    drawing,
    mean_interval,
    numeric_stream,
    panels,
    pima,
    seeds,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
"""Accuracies that the paper states as numbers, by classifier and setting."""

_LABEL = "outcome"
_TEST = 0.3
_NEIGHBORS = 25
_HIDDEN = 16
_PRIVACY = Privacy(7)
_PARAMETERS = Castle(Delay(100), max_clusters=25, loss_window=100, reuse_limit=REUSE)

Labels: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """Training or test data of a classifier.

    Attributes
    ----------
    features : (rows, 2 x attributes) minima of all attributes, then maxima
    labels : (rows,) 0 or 1
    """

    features: Floats
    labels: Labels


@dataclass(frozen=True)
class Scores:
    """Accuracy and area under the ROC curve, one of each per seed."""

    accuracy: tuple[float, ...]
    auc: tuple[float, ...]


def raw(rows: pd.DataFrame) -> Sample:
    """Return raw rows: minimum and maximum are the value."""
    values = rows[[a.name for a in PIMA]].to_numpy(np.float64)
    return Sample(np.hstack([values, values]), rows[_LABEL].to_numpy(np.int64))


def published(releases: Iterable[Releases]) -> Sample:
    """Return released tuples, each with the intervals of its release and its own label."""
    features, labels = [], []
    for some in releases:
        features.append(np.repeat(np.hstack([some.lower, some.upper]), some.tuples, axis=0))
        labels.append(np.array(some.members[0], np.int64))
    return Sample(np.concatenate(features), np.concatenate(labels))


def split(rows: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return training rows, in the order of the stream, and 30 % of each label as test rows."""
    order = np.random.default_rng(seed).permutation(len(rows))
    shuffled = rows.iloc[order]
    rank = shuffled.groupby(_LABEL).cumcount()
    tested = rank < shuffled.groupby(_LABEL)[_LABEL].transform("size") * _TEST
    return shuffled[~tested], shuffled[tested]


def classifier(name: str, seed: int) -> Any:
    """Return an untrained classifier; it scales features to mean 0 and variance 1 of the training data."""
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
    """Return the scores of a trained classifier on raw test rows."""
    from sklearn.metrics import roc_auc_score

    accuracy, auc = [], []
    for seed in seeds(SEEDS):
        train, test = split(pima(), seed)
        learned = raw(train) if setting == "raw" else _released(train, setting, seed)
        tested = raw(test)
        made = classifier(name, seed).fit(learned.features, learned.labels)
        accuracy.append(float(made.score(tested.features, tested.labels)))
        auc.append(float(roc_auc_score(tested.labels, made.predict_proba(tested.features)[:, 1])))
    return Scores(tuple(accuracy), tuple(auc))


def _released(train: pd.DataFrame, setting: Setting, seed: int) -> Sample:
    noise = None if isinstance(setting, str) else SamplingAndNoise(*setting)
    return published(run(numeric_stream(train, PIMA, _LABEL), _PRIVACY, _PARAMETERS, noise, seed).releases)


def quality_table(name: str) -> Table:
    """Tabulate accuracy and AUC of one classifier by sample_rate and phi."""
    table = Table(
        f"Quality of {name} on Pima (k = 7, l = 1, delta = 100, max_clusters 25, loss_window 100; mean and "
        "95 % confidence interval over five splits)",
        ["trained on", "sample_rate", "phi", "accuracy", "AUC", "accuracy in the paper"],
    )
    rows: list[tuple[str, Setting]] = [("raw rows", "raw"), ("CASTLE's releases", "castle")]
    rows += [("CASTLEGUARD's releases", (rate, phi)) for rate in RATES for phi in PHIS]
    for trained, setting in rows:
        found = scores(name, setting)
        rate, phi = ("", "") if isinstance(setting, str) else (f"{setting[0]:g}", f"{setting[1]:,g}")
        paper = PAPER.get((name, setting), "")
        measured = (mean_interval(values, shared=_TEST / (1 - _TEST)) for values in (found.accuracy, found.auc))
        table.add(trained, rate, phi, *measured, paper)
    return table


def majority_share() -> float:
    """Return the accuracy of a constant prediction of the more common label."""
    share = pima()[_LABEL].mean()
    return float(max(share, 1 - share))


def agreement(predicted: Labels, labels: Labels) -> float:
    """Return the share of predictions that equal the label at the same position; further labels are ignored."""
    return float(np.mean(predicted == labels[: len(predicted)]))


def baseline_table() -> Table:
    """Tabulate the likely origin of the paper's 54.87 % for k-NN on raw data.

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
    table.add("(constant prediction of the more common label)", f"{majority_share():.4f}", "")
    return table


def results() -> Iterator[Table | Drawing]:
    """Yield all tables and figures of this module."""
    for name in CLASSIFIERS:
        yield quality_table(name)
    yield baseline_table()
    yield drawing("castleguard-quality", _quality)


def _quality() -> Figure:
    figure, grid = panels(2, 2, (8, 6), sharey=True)
    for row, name in zip(grid, CLASSIFIERS, strict=True):
        for panel, measure in zip(row, ("accuracy", "auc"), strict=True):
            for rate in RATES:
                means = [np.mean(getattr(scores(name, (rate, phi)), measure)) for phi in PHIS]
                panel.semilogx(PHIS, means, marker="o", markersize=3, label=f"sample_rate {rate:g}")
            for setting, label, style in (("raw", "raw rows", "--"), ("castle", "CASTLE", ":")):
                mean = np.mean(getattr(scores(name, setting), measure))
                panel.axhline(mean, color="black", linestyle=style, label=label)
            blind = majority_share() if measure == "accuracy" else 0.5
            panel.axhline(blind, color="gray", linewidth=0.8, label="baseline")
            panel.set(title=name, xlabel="phi", ylabel="AUC" if measure == "auc" else measure)
            panel.set_ylim(0.45, 0.9)
    grid[0, 0].legend(fontsize=7, ncols=2)
    return figure
