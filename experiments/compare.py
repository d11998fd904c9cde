"""Compare algorithms on one table: loss, classes, queries, a classifier, delay, speed, and attackers by knowledge.

``python -m experiments.compare adult`` compares on a data set of the experiments. With a CSV or Parquet file, the
settings come from a configuration file of Crenel, whose source and sinks are not used. All algorithms have the privacy
models of the settings, and the same maximum delay in tuples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
from numpy.typing import NDArray

import crenel
from benchmarks import adult
from crenel.evidence.attack.result import Attack, Queries
from experiments.harness import (
    PIMA,
    RESULTS,
    ROOT,
    TAXI,
    Drawing,
    Floats,
    Table,
    configure,
    demo_visits,
    kept,
    mean_interval,
    panels,
    pima,
    present,
    taxi,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALGORITHMS: dict[str, Callable[[int], Any]] = {
    "castle": lambda delay: crenel.Castle(crenel.Delay(tuples=delay)),
    "nearest": lambda delay: crenel.Nearest(crenel.Delay(tuples=delay)),
    "suhdsa": lambda delay: crenel.Suhdsa(tuples=max(delay // 2, 1), delay=crenel.Delay(tuples=delay)),
    "mondrian": lambda delay: crenel.Mondrian(crenel.Window(tuples=delay)),
    "ola": lambda delay: crenel.Ola(crenel.Window(tuples=delay)),
}
"""Algorithms by name, for a maximum delay in tuples."""

_SHOWN = ("re-identification at 1", "linking")  # attacks of the table; the Arrow file has all
_HELD_OUT = 5  # each fifth record tests the classifier and is not published
_CLASSES = 20  # sensitive values for a classifier, at most
_DEMO_ROWS = 20_000
_BY_SEED = ("loss", "suppressed", "class_size", "discernibility", "accuracy", "delay_p50", "delay_p99", "rate")


@dataclass(frozen=True)
class Data:
    """A table, the settings of its anonymization, and the maximum delay in tuples."""

    name: str
    table: pa.Table
    settings: crenel.Settings
    delay: int


@dataclass(frozen=True)
class Measures:
    """Measures of one algorithm, one figure of each per seed; empty where a measure does not apply.

    Attributes
    ----------
    loss : mean InfoLoss of published records (CASTLE, Section 2.2)
    suppressed : share of the records
    class_size : mean number of records of a class
    discernibility : mean per record of the size of its class; of a suppressed record, the number of all records
        (Bayardo and Agrawal 2005)
    accuracy : of a logistic regression of the first sensitive attribute, trained on published records, on unpublished
        original ones
    delay_p50, delay_p99 : waiting time in tuples, median and 99th percentile
    rate : records per second of a core
    queries : errors of range counts (LeFevre and others 2006), over all seeds
    attacks : over all seeds
    refused : reason where the settings do not allow the algorithm
    """

    loss: tuple[float, ...] = ()
    suppressed: tuple[float, ...] = ()
    class_size: tuple[float, ...] = ()
    discernibility: tuple[float, ...] = ()
    accuracy: tuple[float, ...] = ()
    delay_p50: tuple[float, ...] = ()
    delay_p99: tuple[float, ...] = ()
    rate: tuple[float, ...] = ()
    queries: Queries | None = None
    attacks: tuple[Attack, ...] = ()
    refused: str = ""

    def success(self, attack: str, knows: str) -> float:
        """Return the success of an attack; 0 where it was not tried."""
        return next((one.success for one in self.attacks if (one.name, one.knows) == (attack, knows)), 0.0)


def measure(data: Data, algorithm: str, seeds: int) -> Measures:
    """Anonymize a table by an algorithm, and measure the result.

    Parameters
    ----------
    seeds : number of runs, each of which holds out another fifth of the records, and of replays for the attacks
    """
    try:
        settings = replace(data.settings, algorithm=ALGORITHMS[algorithm](data.delay), seed=1)
    except crenel.ConfigError as error:
        return Measures(refused=error.problems[0].partition("; ")[0])
    crenel.anonymize(data.table.slice(0, 1000), settings)  # compiles
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        for name, value in _run(data.table, replace(settings, seed=seed + 1), seed).items():
            found.setdefault(name, []).append(value)
    attacked = crenel.attack(_parts(data.table, 0)[0], settings, seeds=seeds)
    by_seed: dict[str, Any] = {name: tuple(values) for name, values in found.items()}
    return Measures(**by_seed, queries=attacked.queries, attacks=attacked.attacks)


def _run(table: pa.Table, settings: crenel.Settings, seed: int) -> dict[str, float]:
    """Return the measures of one seed that apply, by their names in ``Measures``."""
    published, tests = _parts(table, seed)
    start = time.process_time()
    result = crenel.anonymize(published, settings)
    seconds = time.process_time() - start
    summary, sizes = result.summary, result.audit["tuples"].to_numpy().astype(np.float64)
    suppressed = sum(summary.suppressed.values())
    admitted = summary.released + suppressed
    found = {
        "loss": summary.mean_loss,
        "suppressed": suppressed / admitted,
        "class_size": float(sizes.mean()) if len(sizes) else None,
        "discernibility": float((sizes**2).sum() + suppressed * admitted) / admitted,
        "accuracy": _accuracy(result.released, tests, settings),
        "delay_p50": None if summary.delay is None else summary.delay.p50,
        "delay_p99": None if summary.delay is None else summary.delay.p99,
        "rate": len(published) / seconds,
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _parts(table: pa.Table, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return the records to publish, and those that test the classifier: another fifth for each of five seeds."""
    held_out = np.arange(len(table)) % _HELD_OUT == seed % _HELD_OUT
    return table.filter(pa.array(~held_out)), table.filter(pa.array(held_out))


def _accuracy(released: pa.Table, tests: pa.Table, settings: crenel.Settings) -> float | None:
    """Return the share of unpublished records whose first sensitive value a classifier predicts."""
    if not settings.policy.sensitive or not len(released):
        return None
    if len(released[settings.policy.sensitive[0]].unique()) > _CLASSES:
        return None
    target = settings.policy.sensitive[0]
    labels, wanted = (of[target].to_pandas().astype(str).to_numpy() for of in (released, tests))
    return float((predict(_features(released, settings), labels, _features(tests, settings)) == wanted).mean())


def predict(features: Floats, labels: NDArray[np.str_], tests: Floats) -> NDArray[np.str_]:
    """Return the labels that a logistic regression predicts for the rows of ``tests``.

    Features are scaled to mean 0 and variance 1 of the training rows. The weights, not the intercept, have a penalty of
    half their squared length beside the sum of the log losses, as scikit-learn's default has.

    Parameters
    ----------
    features, tests : (rows, features)
    labels : (training rows,)
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    classes, number = np.unique(labels, return_inverse=True)
    mean, spread = features.mean(0), features.std(0)
    scaled, of_tests = ((of - mean) / np.where(spread > 0, spread, 1.0) for of in (features, tests))
    right = np.eye(len(classes))[number.reshape(-1)]

    def cost(flat: Floats) -> tuple[float, Floats]:
        weight = flat.reshape(scaled.shape[1] + 1, len(classes))
        likely = log_softmax(scaled @ weight[:-1] + weight[-1], axis=1)
        wrong = np.exp(likely) - right
        gradient = np.vstack([scaled.T @ wrong + weight[:-1], wrong.sum(0)])
        return float((weight[:-1] ** 2).sum() / 2 - (likely * right).sum()), gradient.ravel()

    begin, enough = np.zeros((scaled.shape[1] + 1) * len(classes)), {"maxiter": 300, "ftol": 1e-7}
    found = minimize(cost, begin, jac=True, method="L-BFGS-B", options=enough)
    weight = found.x.reshape(-1, len(classes))
    predicted: NDArray[np.str_] = classes[np.argmax(of_tests @ weight[:-1] + weight[-1], axis=1)]
    return predicted


def _features(table: pa.Table, settings: crenel.Settings) -> Floats:
    """Return the middle of each interval, and the share of each leaf in a published label, as features."""
    columns: list[Floats] = []
    attributes = {attribute.name: attribute for attribute in settings.policy.categorical}
    for name in settings.policy.quasi_identifiers:
        if name in attributes:
            tree = attributes[name].hierarchy
            node = pd.Index(tree.labels).get_indexer(table[name].to_pandas().fillna("(missing)").astype(str))
            leaf = np.arange(tree.leaves)
            within = (tree.first[node][:, None] <= leaf) & (leaf <= tree.last[node][:, None])
            columns.append(within / within.sum(1, keepdims=True))
        else:
            ends = [f"{name}_min", f"{name}_max"] if f"{name}_min" in table.column_names else [name]
            values = [table[end].to_pandas().astype(np.float64) for end in ends]
            columns.append((sum(values) / len(values)).to_numpy()[:, None])
    return np.nan_to_num(np.concatenate(columns, axis=1))


def compare(data: Data, algorithms: Sequence[str], seeds: int) -> Iterator[Table | Drawing]:
    """Tabulate the measures of algorithms, and draw them."""
    found = {name: measure(data, name, seeds) for name in algorithms}
    settings = data.settings
    records = f"{data.name}, {len(data.table):,} records"
    of = f"{records}, k = {settings.privacy.k}, l = {settings.privacy.l}, delay {data.delay:,}"
    header = ["algorithm", "loss", "suppressed, %", "class size", "discernibility", "query error, %", "accuracy, %"]
    table = Table(f"Comparison of algorithms: {of}", [*header, "delay p50, p99", "records/s"])
    parts = [_parts(data.table, seed) for seed in range(seeds)]
    original = [score for part in parts if (score := _accuracy(*part, settings)) is not None]
    if original:
        table.add("original records", *["-"] * 5, _mean(original, ".1f", 100), "-", "-")
    for name, one in found.items():
        if one.refused:
            table.add(name, one.refused, *["-"] * 7)
            continue
        table.add(
            *(name, _mean(one.loss, ".3f"), _mean(one.suppressed, ".2f", 100), _mean(one.class_size, ".1f")),
            *(_mean(one.discernibility, ",.1f"), "-" if one.queries is None else _interval(one.queries)),
            _mean(one.accuracy, ".1f", 100),
            f"{_mean(one.delay_p50, ',.0f')}, {_mean(one.delay_p99, ',.0f')}" if one.delay_p50 else "-",
            _mean(one.rate, ",.0f"),
        )
    yield table
    compared = {name: one for name, one in found.items() if not one.refused}
    table = Table(f"Comparison of attacks: {of}", ["attack and knowledge", *compared])
    rows: dict[str, dict[str, str]] = {}
    for name, one in compared.items():
        for attack in one.attacks:
            if attack.name in _SHOWN:
                rows.setdefault(f"{attack.name}: {attack.knows}", {})[name] = _interval(attack)
    for shown, by_name in rows.items():
        table.add(shown, *(by_name.get(name, "-") for name in compared))
    yield table
    _write(data.name, compared)
    yield Drawing(f"comparison-{data.name}", lambda: _figure(compared))


def _mean(values: Sequence[float], form: str, times: float = 1) -> str:
    """Return the mean, ``times`` a factor, with its confidence interval; ``-`` without values."""
    return mean_interval([times * value for value in values], form) if values else "-"


def _interval(found: Attack | Queries) -> str:
    """Return a share in percent with its 95 % confidence interval."""
    share = found.error if isinstance(found, Queries) else found.success
    return f"{100 * share:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def _write(name: str, found: dict[str, Measures]) -> None:
    """Write all measures as one Arrow file into the folder ``--out``, if there is one.

    A measure has one row per seed; attacks and queries have one row, with their confidence interval.
    """
    file = kept(f"comparison-{name}.arrow")
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for algorithm, one in found.items():
        by_seed = {measure: values for measure, values in vars(one).items() if measure in _BY_SEED}
        for measure, values in by_seed.items():
            rows += [
                {"algorithm": algorithm, "measure": measure, "seed": seed, "value": value}
                for seed, value in enumerate(values)
            ]
        if one.queries is not None:
            errors = {"measure": "query error", "value": one.queries.error}
            rows.append({"algorithm": algorithm, **errors, "low": one.queries.low, "high": one.queries.high})
        for attack in one.attacks:
            share = {"measure": f"{attack.name}: {attack.knows}", "value": attack.success}
            rows.append({"algorithm": algorithm, **share, "low": attack.low, "high": attack.high})
    schema = pa.schema(
        [("algorithm", pa.string()), ("measure", pa.string()), ("seed", pa.int64())]
        + [(column, pa.float64()) for column in ("value", "low", "high")]
    )
    pa.feather.write_feather(pa.Table.from_pylist(rows, schema), file)


def _figure(found: dict[str, Measures]) -> Figure:
    """Draw the loss against the success of the attackers with the least and the most knowledge."""
    figure, grid = panels(1, 2, (8, 3.5))
    for panel, knows in zip(grid[0], ("quasi-identifiers", "quasi-identifiers, exact order"), strict=True):
        for name, one in found.items():
            success = 100 * one.success("re-identification at 1", knows)
            loss = float(np.mean(one.loss))
            panel.scatter([loss], [success])
            panel.annotate(name, (loss, success), textcoords="offset points", xytext=(4, 4), fontsize=8)
        panel.set(xlabel="mean loss", ylabel="re-identified, %", title=f"attacker knows {knows}")
    return figure


def _categorical(name: str) -> crenel.Categorical:
    return crenel.Categorical(adult.DATA / f"hierarchy_{name}.csv")


def _adult() -> Data:
    rows = adult.frame()
    attributes: dict[str, Any] = {
        name: crenel.Numeric((float(rows[name].min()), float(rows[name].max()))) for name in adult.NUMERIC
    }
    attributes |= {name: _categorical(name) for name in adult.CATEGORICAL}
    policy = crenel.Policy(quasi_identifiers=attributes, sensitive=["income"])
    return _data("adult", rows[[*attributes, "income"]], policy, crenel.Privacy(10, 2), 1000)


def _taxi() -> Data:
    attributes: dict[str, Any] = {one.name: crenel.Numeric(one.domain, one.step) for one in TAXI}
    policy = crenel.Policy(quasi_identifiers=attributes, sensitive=["FareAmount"], subject="pid")
    return _data("taxi", taxi()[[*attributes, "FareAmount", "pid"]], policy, crenel.Privacy(10), 200)


def _pima() -> Data:
    attributes: dict[str, Any] = {one.name: crenel.Numeric(one.domain, one.step) for one in PIMA}
    policy = crenel.Policy(quasi_identifiers=attributes, sensitive=["outcome"])
    return _data("pima", pima()[[*attributes, "outcome"]], policy, crenel.Privacy(5), 200)


def _demo() -> Data:
    rows, trees = demo_visits(_DEMO_ROWS), ROOT / "conf" / "hierarchies"
    rows["salary"] = pd.to_numeric(rows["salary"], errors="coerce")
    attributes: dict[str, Any] = {"age": crenel.Numeric((18, 100)), "salary": crenel.Numeric()}
    attributes |= {name: crenel.Categorical(trees / f"{name}.csv") for name in ("area", "education")}
    policy = crenel.Policy(quasi_identifiers=attributes, sensitive=["diagnosis"], subject="person")
    return _data("demo", rows[[*attributes, "diagnosis", "person"]].dropna(), policy, crenel.Privacy(10, 2), 200)


def _data(name: str, rows: pd.DataFrame, policy: crenel.Policy, privacy: crenel.Privacy, delay: int) -> Data:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    return Data(
        name, table, crenel.Settings(policy=policy, privacy=privacy, algorithm=ALGORITHMS["nearest"](delay)), delay
    )


DATA_SETS = {"adult": _adult, "taxi": _taxi, "pima": _pima, "demo": _demo}


def read(data: str, settings: Path | None, delay: int | None) -> Data:
    """Return a data set by its name, or a file with the settings of a configuration file.

    Raises
    ------
    ValueError
        A file has no settings, or the delay of its settings is not in tuples and none is given.
    """
    if data in DATA_SETS and settings is None:
        found = DATA_SETS[data]()
        return found if delay is None else replace(found, delay=delay)
    if settings is None:
        raise ValueError(f"{data}: give --settings with a configuration file, or one of {', '.join(DATA_SETS)}")
    loaded = crenel.load(settings)
    own: int | None = getattr(getattr(loaded.algorithm, "delay", None), "tuples", None)
    delay = delay or own
    if delay is None:
        raise ValueError(f"{settings} has no delay in tuples: give --delay")
    table = pa.parquet.read_table(data) if data.endswith(".parquet") else pa.csv.read_csv(data)
    return Data(Path(data).stem, table, loaded, delay)


def main() -> None:
    """Compare algorithms on the named data."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA", help=f"a CSV or Parquet file, or one of {', '.join(DATA_SETS)}")
    parser.add_argument("--settings", type=Path, metavar="FILE", help="configuration file with the policy of a file")
    parser.add_argument("--algorithms", nargs="+", choices=[*ALGORITHMS], default=[*ALGORITHMS], metavar="NAME")
    parser.add_argument("--delay", type=int, metavar="TUPLES", help="maximum delay; default: that of the settings")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="runs, and replays for attacks (default: 5)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write Markdown, an Arrow file and a figure into DIR")
    parser.add_argument("--update", action="store_true", help="replace the tables of these titles in RESULTS.md")
    given = parser.parse_args()
    configure(None, given.out)
    try:
        data = read(given.data, given.settings, given.delay)
    except (ValueError, FileNotFoundError) as error:
        parser.exit(2, f"{error}\n")
    present(f"comparison-{data.name}", compare(data, given.algorithms, given.seeds), RESULTS if given.update else None)


if __name__ == "__main__":
    main()
