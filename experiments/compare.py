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

import crenel
from benchmarks import adult
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

_SHOWN = ("re-identification at 1:", "linking:")  # attacks of the table; the Arrow file has all
_HELD_OUT = 5  # each fifth record tests the classifier and is not published
_CLASSES = 20  # sensitive values for a classifier, at most
_DEMO_ROWS = 20_000


@dataclass(frozen=True)
class Data:
    """A table, the settings of its anonymization, and the maximum delay in tuples."""

    name: str
    table: pa.Table
    settings: crenel.Settings
    delay: int


@dataclass(frozen=True)
class Measures:
    """Measures of one algorithm; each is None where it does not apply.

    Attributes
    ----------
    loss : mean InfoLoss of published records (CASTLE, Section 2.2)
    suppressed : share of the records
    class_size : mean number of records of a class
    discernibility : mean per record of the size of its class; of a suppressed record, the number of all records
        (Bayardo and Agrawal 2005)
    query_error : median relative error of range counts (LeFevre and others 2006)
    accuracy : of a logistic regression of the first sensitive attribute, trained on published records, on unpublished
        original ones
    delay : waiting time in tuples, median and 99th percentile
    rate : records per second of a core
    attacks : success by attack and knowledge
    refused : reason where the settings do not allow the algorithm
    """

    loss: float | None = None
    suppressed: float | None = None
    class_size: float | None = None
    discernibility: float | None = None
    query_error: float | None = None
    accuracy: float | None = None
    delay: tuple[int, int] | None = None
    rate: float | None = None
    attacks: tuple[tuple[str, float], ...] = ()
    refused: str = ""


def measure(data: Data, algorithm: str, seeds: int) -> Measures:
    """Anonymize a table by an algorithm, and measure the result.

    Parameters
    ----------
    seeds : replays for the attacks
    """
    published, tests = _parts(data.table)
    try:
        settings = replace(data.settings, algorithm=ALGORITHMS[algorithm](data.delay), seed=1)
    except crenel.ConfigError as error:
        return Measures(refused=error.problems[0].partition("; ")[0])
    crenel.anonymize(published.slice(0, 1000), settings)  # compiles
    start = time.process_time()
    result = crenel.anonymize(published, settings)
    seconds = time.process_time() - start
    found = crenel.attack(published, settings, seeds=seeds)
    summary, sizes = result.summary, result.audit["tuples"].to_numpy().astype(np.float64)
    suppressed = sum(summary.suppressed.values())
    admitted = summary.released + suppressed
    return Measures(
        loss=summary.mean_loss,
        suppressed=suppressed / admitted,
        class_size=float(sizes.mean()) if len(sizes) else None,
        discernibility=float((sizes**2).sum() + suppressed * admitted) / admitted,
        query_error=found.queries.error,
        accuracy=_accuracy(result.released, tests, settings),
        delay=None if summary.delay is None else (summary.delay.p50, summary.delay.p99),
        rate=len(published) / seconds,
        attacks=tuple((f"{one.name}: {one.knows}", one.success) for one in found.attacks),
    )


def _parts(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the records to publish, and those that test the classifier."""
    held_out = np.arange(len(table)) % _HELD_OUT == 0
    return table.filter(pa.array(~held_out)), table.filter(pa.array(held_out))


def _accuracy(released: pa.Table, tests: pa.Table, settings: crenel.Settings) -> float | None:
    """Return the share of unpublished records whose first sensitive value a classifier predicts."""
    if not settings.policy.sensitive or not len(released):
        return None
    if len(released[settings.policy.sensitive[0]].unique()) > _CLASSES:
        return None
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    target = settings.policy.sensitive[0]
    labels, wanted = released[target].to_numpy(zero_copy_only=False), tests[target].to_numpy(zero_copy_only=False)
    if len({*labels}) < 2:
        return float((wanted == labels[0]).mean())
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    model.fit(_features(released, settings), labels.astype(str))
    return float((model.predict(_features(tests, settings)) == wanted.astype(str)).mean())


def _features(table: pa.Table, settings: crenel.Settings) -> Floats:
    """Return the middle of each interval, and the share of each leaf in a published label, as features."""
    columns: list[Floats] = []
    attributes = {attribute.name: attribute for attribute in settings.validated.policy.categorical}
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
    table = Table(
        f"Comparison of algorithms: {of}",
        [
            "algorithm",
            "loss",
            "suppressed",
            "class size",
            "discernibility",
            "query error",
            "accuracy",
            "delay p50, p99",
            "records/s",
        ],
    )
    original = _accuracy(*_parts(data.table), settings)
    if original is not None:
        table.add("original records", *["-"] * 5, f"{original:.1%}", "-", "-")
    for name, one in found.items():
        if one.refused:
            table.add(name, one.refused, *["-"] * 7)
            continue
        delay = "-" if one.delay is None else f"{one.delay[0]:,}, {one.delay[1]:,}"
        accuracy = "-" if one.accuracy is None else f"{one.accuracy:.1%}"
        table.add(
            *(name, f"{one.loss:.3f}", f"{one.suppressed:.2%}", f"{one.class_size:.1f}", f"{one.discernibility:,.1f}"),
            *(f"{one.query_error:.1%}", accuracy, delay, f"{one.rate:,.0f}"),
        )
    yield table
    compared = [name for name, one in found.items() if not one.refused]
    table = Table(f"Comparison of attacks: {of}", ["attack and knowledge", *compared])
    rows: dict[str, dict[str, float]] = {}
    for name in compared:
        for attack, success in found[name].attacks:
            if attack.startswith(_SHOWN):
                rows.setdefault(attack, {})[name] = success
    for attack, by_name in rows.items():
        table.add(attack, *(f"{by_name[name]:.1%}" if name in by_name else "-" for name in compared))
    yield table
    _write(data.name, {name: found[name] for name in compared})
    yield Drawing(f"comparison-{data.name}", lambda: _figure({name: found[name] for name in compared}))


def _write(name: str, found: dict[str, Measures]) -> None:
    """Write all measures as one Arrow file into the folder ``--out``, if there is one."""
    file = kept(f"comparison-{name}.arrow")
    if file is None:
        return
    rows = [
        {"algorithm": algorithm, "measure": measure, "value": float(value)}
        for algorithm, one in found.items()
        for measure, value in (
            *((n, v) for n, v in vars(one).items() if isinstance(v, float)),
            *(zip(("delay p50", "delay p99"), one.delay or (), strict=False)),
            *one.attacks,
        )
    ]
    pa.feather.write_feather(pa.Table.from_pylist(rows), file)


def _figure(found: dict[str, Measures]) -> Figure:
    """Draw the loss against the success of the attackers with the least and the most knowledge."""
    figure, grid = panels(1, 2, (8, 3.5))
    for panel, knows in zip(grid[0], ("quasi-identifiers", "quasi-identifiers, exact order"), strict=True):
        for name, one in found.items():
            success = dict(one.attacks).get(f"re-identification at 1: {knows}", 0.0)
            panel.scatter([one.loss], [100 * success])
            panel.annotate(name, (one.loss, 100 * success), textcoords="offset points", xytext=(4, 4), fontsize=8)
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
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="replays for the attacks (default: 3)")
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
