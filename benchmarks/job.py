"""The whole job by CASTLE and by nearest, on a local mini-cluster, against two that do not anonymize.

- ``identity``: the same source and sink, and between them a KeyedProcessFunction that returns each row
- ``blocks``: the same job, but the operator returns each block as one release and does no more

The lean job (``adult.yaml``) publishes one column and writes no records; the real one (``real.yaml``) has persons and
event time, publishes five columns of four types and writes what was suppressed, rejected and released besides.

Start-up takes longer than the work, so a rate is the difference of two runs: (rows of the long one - rows of the
short one) / (its seconds - the other's). The short one is long enough for Java to be warm at its end. Each run has a
process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.table import StreamTableEnvironment

from benchmarks import adult, real
from benchmarks.measure import Table, core_seconds
from crenel.anonymity.buffer.members import listed
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.space.domain import domain
from crenel.jobs.config import load as config
from crenel.jobs.pipeline import build as pipeline
from crenel.jobs.pipeline import environment
from crenel.jobs.pipeline.job import Job
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.rows import Emitter
from crenel.state.block import NO_TIME, Block

CONFIGURATION = Path(__file__).with_name("adult.yaml")
_NEAREST = (
    "algorithm=nearest",
    "castle=null",
    "nearest={delay: {tuples: 1000, jitter: 0}, loss_window: 100, reuse_limit: 1000}",
)
_REAL_NEAREST = (*_NEAREST[:2], "nearest={delay: {tuples: 1000, event_time: 10 min}, loss_window: 100}")
# Cells publish no pass-through column. A visit is that of a person of its own, so that each record counts.
_VISITS = ("policy.subject=visit", "policy.passthrough=[]", "policy.drop=[person, paid, seen]", "privacy.k=12")
_CELLS = (
    "algorithm=cells",
    "castle=null",
    "cells={window: 1 s, lateness: 15 s, partition: '${BENCH_PARTITION}', epsilon: 1, delta: 1.0e-6, horizon: null}",
)
_SAMPLE_RATE = 0.2


@dataclass(frozen=True)
class Variant:
    """One job.

    Attributes
    ----------
    rows : of its short and of its long run
    configuration, overrides : as ``crenel run`` takes them
    passes : what is not anonymized: blocks, rows, or neither
    form : of the source: csv, json, nested (JSON with fields of a ROW), records (JSON as text, ``source.from_json``),
        lines (CSV as text, ``source.from_csv``) or datagen
    half_rejected : whether every second row is
    live : whether the clock is the event time, so that windows of cells close while the job runs
    written : least share of the rows that must be written, published or not
    slots : parallelism; the input is in as many files
    mode : where Python runs: in processes of its own, one a slot, as on a cluster, or in that of the run
    """

    rows: tuple[int, int] = (500_000, 2_000_000)
    configuration: Path = CONFIGURATION
    overrides: tuple[str, ...] = ()
    passes: str = ""
    form: str = "csv"
    half_rejected: bool = False
    live: bool = False
    written: float = 0.99
    slots: int = 1
    mode: Literal["loopback", "process"] = "loopback"

    @property
    def real(self) -> bool:
        """Whether it is the real job."""
        return self.configuration == real.CONFIGURATION


_REAL = Variant((300_000, 1_200_000), real.CONFIGURATION)
# Windows close 15 s after their end, so that a shorter run releases most rows after its input has ended.
_LIVE = replace(_REAL, rows=(1_500_000, 4_500_000), live=True)
_MODES: tuple[Literal["process"], Literal["loopback"]] = ("process", "loopback")
VARIANTS = {
    "castle": Variant(),
    "nearest": Variant(overrides=_NEAREST),
    "blocks": Variant(passes="blocks"),
    "identity": Variant((100_000, 350_000), passes="rows"),
    **{
        f"castle, 4 shards, {slots} slot{'s' * (slots > 1)}, {mode}": Variant(
            overrides=("shards.count=4",), slots=slots, mode=mode
        )
        for mode in _MODES
        for slots in (1, 2)
    },
    "real castle": _REAL,
    "real nearest": replace(_REAL, overrides=_REAL_NEAREST),
    "real nearest, isolation priced": replace(_REAL, overrides=(*_REAL_NEAREST, "nearest.isolation_price=0.55")),
    "real blocks": replace(_REAL, passes="blocks"),
    "real castle, half rejected": replace(_REAL, half_rejected=True),
    "real castle, JSON": replace(_REAL, form="json"),
    "real blocks, JSON": replace(_REAL, form="json", passes="blocks"),
    "real castle, nested JSON": replace(_REAL, form="nested"),
    "real castle, records": replace(_REAL, form="records"),
    "real blocks, records": replace(_REAL, form="records", passes="blocks"),
    "real castle, lines": replace(_REAL, form="lines"),
    "real blocks, lines": replace(_REAL, form="lines", passes="blocks"),
    "real castle, datagen": replace(_REAL, form="datagen"),
    "real blocks, datagen": replace(_REAL, form="datagen", passes="blocks"),
    "live nearest": replace(_LIVE, overrides=(*_VISITS, *_REAL_NEAREST)),
    "live cells, sampled": replace(
        _LIVE, overrides=(*_VISITS, *_CELLS, f"cells.sample_rate={_SAMPLE_RATE}"), written=0.99 * _SAMPLE_RATE
    ),
    "live cells, noisy": replace(_LIVE, overrides=(*_VISITS, *_CELLS, "cells.release=noisy")),
}
_LEAN = ("castle", "nearest", "blocks", "identity")
_AIMS = {
    "castle": {"identity": "3", "blocks": "0.85"},
    "nearest": {"blocks": "0.7"},
    **{f"castle, 4 shards, 2 slots, {mode}": {f"castle, 4 shards, 1 slot, {mode}": "1.5"} for mode in _MODES},
    "real castle": {"castle": "0.83", "real blocks": "0.8"},
    "real castle, half rejected": {"real castle": "1"},
    "real castle, nested JSON": {"real castle, JSON": "0.8"},
    "real nearest, isolation priced": {"real nearest": "0.9"},
    "live cells, sampled": {"live nearest": "1"},
    "live cells, noisy": {"live nearest": "1"},
}
"""Baseline of each job, and the ratio of rows a second to reach."""


class PassBlocks(KeyedProcessFunction):  # type: ignore[misc]
    """Returns each block as one release of all its tuples, under the most general box."""

    def __init__(self, plan: AnonymizationPlan) -> None:
        self._plan = plan

    def open(self, runtime_context: RuntimeContext) -> None:
        self._emitter = Emitter(self._plan)
        self._domain = domain(self._plan.context.policy)
        self._roots = np.array([[a.hierarchy.root for a in self._plan.context.policy.categorical]], np.int32)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        block = Block.from_bytes(value[1], self._plan.context.members)
        one, none = np.ones(1, np.int64), np.zeros(0, np.int64)
        releases = Releases(
            release_id=one,
            kind=np.zeros(1, np.int8),
            subjects=one,
            tuples=one * len(block),
            diversity=np.ones((1, len(self._plan.context.policy.sensitive)), np.int64),
            loss=np.ones(1),
            event_time=one * NO_TIME,
            lower=self._domain.lower[None],
            upper=self._domain.upper[None],
            node=self._roots,
            offsets=np.array([0, len(block)]),
            members=tuple(map(listed, block.members.columns)),
            linked=one * 0,
            noise_expected=np.zeros((1, 0)),
            noise_error=np.zeros((1, 0)),
            suppressed_reason=none.astype(np.int8),
            suppressed_position=none,
            suppressed_event_time=none,
        )
        yield from self._emitter.releases(releases, block.shard)


class PassRows(KeyedProcessFunction):  # type: ignore[misc]
    """Returns each row."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value


def _identity(tables: StreamTableEnvironment, settings: config.Config) -> Job:
    tables.execute_sql(settings.source.ddl)
    source = tables.sql_query("SELECT * FROM source")
    columns = source._j_table.getResolvedSchema().getColumns()
    names = [column.getName() for column in columns]
    kinds = [column.getDataType().getLogicalType().asSummaryString() for column in columns]
    rows = Types.ROW_NAMED(names, [Types.INT() if kind == "INT" else Types.STRING() for kind in kinds])
    passed = tables.to_data_stream(source).key_by(lambda row: 0, Types.INT()).process(PassRows(), rows)
    tables.create_temporary_view("passed", tables.from_data_stream(passed))
    declared = ", ".join(f"`{name}` {kind}" for name, kind in zip(names, kinds, strict=True))
    options = ", ".join(f"'{key}' = '{value}'" for key, value in settings.sinks["released"].items())
    tables.execute_sql(f"CREATE TEMPORARY TABLE sink ({declared}) WITH ({options})")
    job = Job(tables, passed)
    job.insert("sink", "SELECT * FROM passed")
    return job


def settings_of(variant: Variant, rows: int) -> config.Config:
    """Return its configuration, for so many rows."""
    settings = config.load(variant.configuration, variant.overrides)
    if variant.form == "datagen":
        return replace(settings, source=replace(settings.source, ddl=real.generated(rows)))
    if variant.form == "nested":
        return real.nested(settings)
    if variant.form == "records":
        return replace(settings, source=real.records())
    if variant.form == "lines":
        # Of a line every field is a column of the policy.
        policy = replace(settings.policy, drop=("ms",))
        return replace(settings, settings=replace(settings.settings, policy=policy), source=real.lines())
    return real.live(settings) if variant.live else settings


def work(variant: Variant, rows: int) -> list[float]:
    """Run one job in this process; its seconds from submission to the end, and those of one core that it took."""
    settings = settings_of(variant, rows)
    # A generated sequence has its rows in its state, which is more than what lies in memory may be.
    checkpoints = f"file://{os.environ['BENCH_OUTPUT']}-checkpoints"
    given = {"parallelism.default": str(variant.slots), "execution.checkpointing.dir": checkpoints}
    tables = environment.local_environment({**given, **settings.flink})
    job = (
        _identity(tables, settings)
        if variant.passes == "rows"
        else pipeline.build(tables, settings, *([PassBlocks] if variant.passes == "blocks" else []))
    )
    start, before = time.perf_counter(), core_seconds()
    job.execute().get_job_execution_result().result()
    return [time.perf_counter() - start, core_seconds() - before]


def rows_file(rows: int, folder: Path) -> Path:
    """Return a file of so many rows of Adult in ``folder``, written where there is none."""
    frame = adult.frame()[[*adult.NUMERIC, *adult.CATEGORICAL, "income"]]
    path = folder / f"{rows}.csv"
    if not path.exists():
        times = -(-rows // len(frame))
        text = frame.to_csv(index=False, header=False)
        lines = (text * times).splitlines(keepends=True)[:rows]
        path.write_text("".join(lines))
    return path


def variables(rows: int, folder: Path, output: str) -> dict[str, str]:
    """Return the environment of a job that reads so many rows of ``folder`` and writes below ``output``."""
    return _writing(output) | {"BENCH_INPUT": str(rows_file(rows, folder))}


def _writing(output: str) -> dict[str, str]:
    return os.environ | {
        "BENCH_OUTPUT": f"{output}/released",
        "BENCH_HIERARCHIES": str(adult.DATA),
        "FLINK_LOG_DIR": f"{output}/log",
    }


def variables_of(variant: Variant, rows: int, folder: Path, output: str) -> dict[str, str]:
    """Return the environment of a job of this file, as ``variables`` does."""
    mode = {"_python_worker_execution_mode": variant.mode}
    if variant.form == "datagen":
        return _writing(output) | mode | {"BENCH_SOURCE": ""}
    if variant.real:
        path = real.rows_file(rows, folder, variant.form, half_rejected=variant.half_rejected)
        partition = {"BENCH_PARTITION": str(real.partition_file(folder))} if variant.live else {}
        return _writing(output) | mode | {"BENCH_SOURCE": real.source(path, variant.form)} | partition
    given = variables(rows // variant.slots, folder, output) | mode
    if variant.slots > 1:  # a file of CSV is read by one reader
        parts = folder / f"{rows}-in-{variant.slots}"
        parts.mkdir(exist_ok=True)
        for number in range(variant.slots):
            if not (parts / f"{number}.csv").exists():
                (parts / f"{number}.csv").symlink_to(given["BENCH_INPUT"])
        given["BENCH_INPUT"] = str(parts)
    return given


def _seconds(name: str, rows: int, folder: Path) -> list[float]:
    variant = VARIANTS[name]
    with tempfile.TemporaryDirectory(dir=folder) as output:
        given = variables_of(variant, rows, folder, output)
        command = [sys.executable, "-m", "benchmarks.job", name, str(rows)]
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
        folders = [Path(output) / f"released{what}" for what in ("", "-suppressed", "-rejected")]
        written = sum(sum(1 for _ in file.open()) for part in folders for file in part.rglob("part-*"))
        if written < rows * variant.written:
            raise RuntimeError(f"{name}: {written:,} of {rows:,} rows were written")
        seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
        return seconds


def rate_table(names: Sequence[str], title: str, repeats: int = 2) -> Table:
    """Rows a second of each job, best of several in turn, the ratios to reach, and what a million rows takes of a core.

    The latter depends less on what else runs on the machine.
    """
    seconds: dict[tuple[str, int], list[list[float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for name in names:
                for rows in VARIANTS[name].rows:
                    seconds[name, rows].append(_seconds(name, rows, Path(folder)))
    rates, cores = {}, {}
    for name in names:
        few, many = VARIANTS[name].rows
        short, long = (np.min(seconds[name, rows], axis=0) for rows in (few, many))
        rates[name], cores[name] = (many - few) / (long - short)[0], (long - short)[1] / (many - few) * 1e6
    table = Table(
        f"{title}; best of {repeats}, in turn",
        ["job", "rows/s", "core seconds a million rows", "of another", "to reach"],
    )
    for name, rate in rates.items():
        aims = {other: aim for other, aim in _AIMS.get(name, {}).items() if other in rates}
        ratios = [f"{rate / rates[other]:.2f} of {other}" for other in aims]
        table.add(name, f"{rate:,.0f}", f"{cores[name]:.1f}", ", ".join(ratios) or "-", ", ".join(aims.values()) or "-")
    return table


def live_table(repeats: int = 2) -> Table:
    """Return the rates of cells beside nearest, on one stream whose windows close while the job runs."""
    title = (
        "The whole job by cells beside nearest (`benchmarks/real.yaml`: ten quasi-identifiers, two sensitive columns)"
    )
    return rate_table([name for name in VARIANTS if VARIANTS[name].live], title, repeats)


def _first_release(folder: Path) -> float:
    """Seconds from the start of ``crenel run`` to the first row that reaches its sink, which then makes a file."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        given = variables(50_000, folder, output)
        command = [sys.executable, "-m", "crenel.jobs.cli.main", "run", str(CONFIGURATION)]
        start = time.perf_counter()
        with subprocess.Popen(command, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
            while job.poll() is None and not any(map(Path.is_file, Path(given["BENCH_OUTPUT"]).rglob("*"))):
                time.sleep(0.01)
            seconds = time.perf_counter() - start
        if job.returncode:
            raise RuntimeError(f"the job ended with {job.returncode}")
        return seconds


def start_table(repeats: int = 5) -> Table:
    """Seconds from the start of a local run to its first release."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = [_first_release(Path(folder)) for _ in range(repeats)]
    table = Table("`crenel run`, from its start to the first release", ["runs", "best", "median", "worst", "to reach"])
    table.add(repeats, *(f"{figure:.1f} s" for figure in (min(seconds), median(seconds), max(seconds))), "8 s")
    return table


def tables() -> list[Table]:
    """Print all tables of this file."""
    lean = "The whole job (local, parallelism 1, CSV to CSV, Adult repeated, k = 10, delta = 1,000)"
    full = "The whole job as users have it (`benchmarks/real.yaml`: l = 2, five published columns, all records written)"
    two = "Two slots on two cores"
    return [
        rate_table(_LEAN, lean),
        rate_table([name for name in VARIANTS if "slot" in name], two),
        rate_table(["castle", *(name for name in VARIANTS if VARIANTS[name].real and not VARIANTS[name].live)], full),
        live_table(),
        start_table(),
    ]


if __name__ == "__main__":
    print(json.dumps(work(VARIANTS[sys.argv[1]], int(sys.argv[2]))))
