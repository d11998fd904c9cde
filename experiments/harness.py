"""Common parts of all experiments: data sets, replays over seeds, statistics, tables and figures.

An experiment is a function without arguments that yields tables and figures. It asks the harness for its seeds, so that
``--seeds`` reaches every experiment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.adult import REUSE, Stream
from benchmarks.measure import Replay, Table, replay, save_figure, update
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.model.attributes import Numeric, by_name
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.jobs.cli import synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REUSE", "Replay", "Stream", "Table", "replay"]

Floats: TypeAlias = NDArray[np.float64]
Argument = TypeVar("Argument")
Made = TypeVar("Made")

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("RESULTS.md")
"""Tables of the last runs, which the documentation includes."""

DATA = ROOT.parent / "shared" / "data"
"""Folder of the data sets, which are not part of the repository."""

# Files below ``DATA`` that experiments need.
ADULT_FILE = "adult/adult.data"
TAXI_FILE = "taxi/yellow_2019-01_sample1000.csv"
PIMA_FILE = "pima/diabetes.csv"

TAXI = (Numeric((1, 265), 1).named("PickupLocationID"), Numeric((0, 50), 0.01).named("TripDistance"))
"""Quasi-identifiers of the taxi trips: zones are numbered from 1 to 265, distances recorded in 0.01 miles."""

PIMA = (
    Numeric((0, 20), 1).named("pregnancies"),
    Numeric((0, 200), 1).named("glucose"),
    Numeric((0, 150), 1).named("bloodPressure"),
    Numeric((0, 100), 1).named("skinThickness"),
    Numeric((0, 900), 1).named("insulin"),
    Numeric((0, 70), 0.1).named("bmi"),
    Numeric((0, 3), 0.001).named("diabetesPedigree"),
    Numeric((18, 90), 1).named("age"),
)
"""Quasi-identifiers of Pima. A step is the last recorded digit of its column; 0 also stands for a missing value."""


@dataclass(frozen=True)
class Drawing:
    """A figure of an experiment, drawn only where a folder for it is given.

    Attributes
    ----------
    name : of the file, without its suffix
    draw : makes the figure; needs matplotlib
    metadata : entries of the file, by matplotlib's names
    """

    name: str
    draw: Callable[[], Figure]
    metadata: tuple[tuple[str, str], ...] = ()


class MissingDataError(Exception):
    """A data set is not beside the project."""


@dataclass
class _Options:
    """Arguments of the command line; every process of an experiment has the same."""

    seeds: int | None = None
    out: Path | None = None


_options = _Options()


def configure(seeds: int | None, out: Path | None) -> None:
    """Set the number of seeds of all experiments (None: the default of each), and the folder of their files."""
    _options.seeds, _options.out = seeds, out


def seeds(default: int) -> range:
    """Return the seeds of an experiment: as many as ``--seeds`` says, otherwise ``default``."""
    return range(default if _options.seeds is None else _options.seeds)


def kept(name: str) -> Path | None:
    """Return the file for intermediate results of a long experiment in the folder ``--out``; None without one."""
    return None if _options.out is None else _options.out / name


def require(name: str, files: Iterable[str]) -> None:
    """Raise MissingDataError if a file of an experiment is not below ``DATA``."""
    if missing := [file for file in files if not (DATA / file).exists()]:
        raise MissingDataError(f"{name} needs {', '.join(missing)} in {os.path.relpath(DATA)}, which is not there")


def installed(folder: Path, *packages: str) -> Path:
    """Install packages in a new virtual environment and return its Python; needs PyPI."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True)
    return python


def present(name: str, results: Iterable[Table | Drawing], kept_in: Path | None = None) -> None:
    """Print the tables of an experiment; with ``--out`` write ``NAME.md``, and draw the figures as SVG.

    Parameters
    ----------
    kept_in : Markdown file whose tables of the same titles are replaced
    """
    folder = _options.out
    with ExitStack() as files:
        markdown = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            markdown = files.enter_context((folder / f"{name}.md").open("w", encoding="utf-8"))
        for result in results:
            if isinstance(result, Table):
                print(result, flush=True)
                if kept_in is not None and not update(kept_in, result):
                    print(f"{kept_in.name} has no table with this title", file=sys.stderr, flush=True)
                if markdown is not None:
                    print(result, file=markdown, flush=True)
            elif folder is not None:
                path = folder / f"{result.name}.svg"
                save_figure(result.draw, path, **dict(result.metadata))
                print(f"wrote {path}", file=sys.stderr, flush=True)


def in_processes(function: Callable[[Argument], Made], given: Sequence[Argument]) -> Iterator[Made]:
    """Call a function with each argument, in as many processes as there are cores; yield the results in order.

    Parameters
    ----------
    function : of a module, so that another process can import it
    """
    workers = min(os.cpu_count() or 1, len(given))
    if workers < 2:
        yield from map(function, given)
        return
    arguments = (_options.seeds, _options.out)
    with ProcessPoolExecutor(workers, get_context("spawn"), configure, arguments) as pool:
        yield from pool.map(function, given)


@dataclass(frozen=True)
class Setting:
    """A stream, and an algorithm with the privacy models of its releases."""

    tuples: Stream
    algorithm: Algorithm
    privacy: Privacy


def replays(
    settings: Sequence[Setting], default: int, order: Callable[[Stream, int], Stream] | None = None
) -> list[list[Replay]]:
    """Replay each setting with each seed, in processes; return the runs of each setting, without their releases.

    Parameters
    ----------
    default : number of seeds, where ``--seeds`` names no other
    order : of a module; returns the stream in the order of a seed
    """
    every = seeds(default)
    found = in_processes(_replayed, [(setting, seed, order) for setting in settings for seed in every])
    return [[next(found) for _ in every] for _ in settings]


def _replayed(given: tuple[Setting, int, Callable[[Stream, int], Stream] | None]) -> Replay:
    setting, seed, order = given
    tuples = setting.tuples if order is None else order(setting.tuples, seed)
    made = replay(tuples, setting.algorithm, setting.privacy, seed)
    return Replay([], made.counters, made.seconds)


def mean_interval(values: Sequence[float], form: str = ".3f", shared: float = 0.0) -> str:
    """Return the mean and half the width of its 95 % confidence interval (Student's t): ``0.259 ± 0.001``.

    Parameters
    ----------
    shared : test rows per training row where the values are of random splits of the same rows, which are no independent
        sample: their variance rises by this share of it (Nadeau and Bengio 2003)
    """
    mean = f"{np.mean(values):{form}}"
    if len(values) < 2:
        return mean
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) * np.sqrt(1 / len(values) + shared)
    return f"{mean} ± {half:{form}}"


def mean_deviation(values: Sequence[float], form: str = ".3f") -> str:
    """Return the mean and the standard deviation: ``0.120 ± 0.006``."""
    deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{np.mean(values):{form}} ± {deviation:{form}}"


def percent(share: float | np.floating[Any]) -> str:
    """Return a share in percent, without decimals from 100 % on."""
    return f"{share * 100:.0f} %" if share >= 1 else f"{share * 100:.2f} %"


def panels(rows: int, columns: int, size: tuple[float, float], **subplots: Any) -> tuple[Figure, Any]:
    """Return an empty figure with a grid of panels, (rows, columns); size in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **subplots)


def legend_below(figure: Figure, panel: Any, columns: int = 7) -> Figure:
    """Put the legend of a panel below the figure."""
    figure.legend(*panel.get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=columns)
    return figure


def drawing(name: str, draw: Callable[..., Figure], *given: Any) -> Drawing:
    """Return a drawing by a function with arguments."""
    return Drawing(name, partial(draw, *given))


def taxi() -> pd.DataFrame:
    """Return the 1,000 trips in file order."""
    return pd.read_csv(DATA / TAXI_FILE)


def pima() -> pd.DataFrame:
    """Return the 768 women in file order."""
    return pd.read_csv(DATA / PIMA_FILE)


def demo_visits(rows: int) -> pd.DataFrame:
    """Return the first visits of the demo's stream, with all columns of its file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "stream.csv"
        synthetic.write(file, rows)
        return pd.read_csv(file, names=list(synthetic.COLUMNS), na_values=[""], keep_default_na=False)


def numeric_stream(
    rows: pd.DataFrame,
    attributes: Sequence[Numeric],
    sensitive: str,
    subject: str | None = None,
    *,
    declared: bool = True,
) -> Stream:
    """Return rows in their order as tuples with numeric quasi-identifiers; not ``declared``: without their domains."""
    chosen = tuple(attributes if declared else (replace(a, domain=None) for a in attributes))
    values = rows[sensitive].to_numpy()
    return Stream(
        policy=Policy(by_name(chosen), sensitive=(sensitive,), subject=subject),
        numeric=rows[[a.name for a in chosen]].to_numpy(np.float64),
        categorical=np.zeros((len(rows), 0), np.int32),
        sensitive=pd.util.hash_array(values).reshape(-1, 1),
        members=pa.record_batch([pa.array(values)], names=[sensitive]),
        subject=None if subject is None else pd.util.hash_array(rows[subject].to_numpy()),
    )


def taxi_stream(*, declared: bool = True) -> Stream:
    """Return the taxi trips; ``pid`` is the subject, the fare sensitive."""
    return numeric_stream(taxi(), TAXI, "FareAmount", "pid", declared=declared)


def pima_stream() -> Stream:
    """Return Pima; each row is its own person, the outcome sensitive."""
    return numeric_stream(pima(), PIMA, "outcome")
