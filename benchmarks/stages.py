"""Processor time of a row by stage of the whole job, in Java and in Python.

The clock of a thread times the stages in Python. Java's Flight Recorder samples the stages of its threads a hundred
times per second; compilation and garbage collection have threads of their own. Both cover the same middle part of a
run, when Java is warm. The rest of Python is PyFlink's: it exchanges elements with Java.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflink.datastream import KeyedProcessFunction
from pyflink.fn_execution import coder_impl_fast
from pyflink.java_gateway import get_gateway

from benchmarks import job
from benchmarks.measure import Table, save_figure, threads
from crenel.jobs.pipeline import build as pipeline
from crenel.jobs.pipeline import environment
from crenel.operators.encode.encoder import Encoder
from crenel.operators.encode.records import RecordArguments
from crenel.operators.shards.function import KeyedShard, ShardFunction
from crenel.state.block import Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIGURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "where.svg"
_COLORS = {"Java": "C0", "Python": "C1"}

SETTINGS = {
    "castle": "CASTLE, one published column",
    "real castle": "CASTLE, the real job",
    "real castle, lines": "CASTLE, the real job, lines",
}
"""Jobs of ``benchmarks.job`` that are looked into."""

_FROM, _TO = 0.3, 0.95
"""Of the rows of a run: what is measured lies between."""

_DEPTH = 128
_STAGES = (
    # The first that a stack names, from its bottom upwards. Samples in no stage are Flink's own.
    (r"UnnestRows|StreamExecCorrelate", "unnest"),
    (r"formats\.(csv|json)\S*(Deserialization|ToRowData|Reader)|Csv(Parser|Decoder)|JsonParser", "source"),
    (r"formats\.(csv|json)|Csv(Generator|Encoder)|JsonGenerator", "sink"),
    (r"sink\.filesystem|FileSink|connector\.file\.(sink|table)", "sink"),
    (r"connector\.(file\.src|base\.source)|datagen", "source"),
    (r"arrow\.writers|ArrowWriter", "Java to Arrow"),
    (r"arrow\.vectors|ArrowReader", "Arrow to Java"),
    (r"KeyGroupStreamPartitioner|RecordWriter|ChannelSelector", "key by"),
    (r"StreamExecCalc", "calc"),
    (r"typeutils|PythonTypeUtils|DataFormatConverters|data\.conversion", "rows from Python"),
    (r"org\.apache\.beam|io\.grpc|netty", "between Java and Python"),
)
_COMPILING = r"C[12] Compiler|Sweeper"
_COLLECTING = r"GC |G1 |VM Thread|Gang worker"


class Clock:
    """Seconds of a core that each stage in Python has taken so far."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.rows = 0
        self._within = threading.local()

    def timed(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same function; its time counts for this stage, except that of other stages within it."""

        def run(*values: Any, **named: Any) -> Any:
            outer = getattr(self._within, "inner", 0.0)
            self._within.inner, start = 0.0, time.thread_time()
            try:
                return work(*values, **named)
            finally:
                taken = time.thread_time() - start
                self.seconds[stage] += taken - self._within.inner
                self._within.inner = outer + taken

        return run


CLOCK = Clock()


class TimedFunction(ShardFunction):
    """Tells ``CLOCK`` what its parts take."""

    def _load(self, ctx: KeyedProcessFunction.Context, key: int, number: int | None) -> KeyedShard:
        keyed = super()._load(ctx, key, number)
        for name in ("push", "advance", "finish"):
            setattr(keyed.shard, name, CLOCK.timed("core", getattr(keyed.shard, name)))
        return keyed

    def _keep(self, *given: Any) -> None:
        CLOCK.timed("state", super()._keep)(*given)

    def _emit(self, *given: Any) -> Iterator[Any]:
        yield from CLOCK.timed("emit", lambda: list(super(TimedFunction, self)._emit(*given)))()

    def _reject(self, *given: Any) -> Iterator[Any]:
        yield from CLOCK.timed("emit", lambda: list(super(TimedFunction, self)._reject(*given)))()


def _instrumented() -> None:
    encode, decode = Encoder.encode, Block.from_bytes

    def counted(encoder: Encoder, *series: Any) -> Any:
        CLOCK.rows += len(series[0])
        return encode(encoder, *series)

    Encoder.encode = CLOCK.timed("encode", counted)  # type: ignore[method-assign]
    RecordArguments.read = CLOCK.timed("fields of records", RecordArguments.read)  # type: ignore[method-assign]
    Block.from_bytes = CLOCK.timed("decode", decode)  # type: ignore[method-assign]
    for name, stage in (("arrow_to_pandas", "Arrow to pandas"), ("pandas_to_arrow", "pandas to Arrow")):
        setattr(coder_impl_fast, name, CLOCK.timed(stage, getattr(coder_impl_fast, name)))


class _Java:
    """The process of Java: seconds of a core by the kind of its threads, and samples of what its tasks do."""

    def __init__(self) -> None:
        self._jvm = get_gateway().jvm
        self._number = int(self._jvm.java.lang.ProcessHandle.current().pid())
        self._recording = self._jvm.jdk.jfr.Recording()
        self._recording.enable("jdk.ExecutionSample").withPeriod(self._jvm.java.time.Duration.ofMillis(10))

    def seconds(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, seconds in threads(self._number):
            kind = "compile" if re.search(_COMPILING, name) else "collect" if re.search(_COLLECTING, name) else "work"
            found[kind] += seconds  # type: ignore[assignment]
        return found

    def start(self) -> None:
        self._recording.start()

    def stop(self, path: Path) -> None:
        self._recording.stop()
        self._recording.dump(self._jvm.java.io.File(str(path)).toPath())


def stages_of(samples: str) -> Counter[str]:
    """Return the number of samples, as ``jfr print`` shows them, in each stage."""
    found: Counter[str] = Counter()
    for sample in samples.split("jdk.ExecutionSample {")[1:]:
        source = bool(re.search(r'sampledThread = "Source', sample))
        stage = "Flink itself"
        for frame in sample.partition("stackTrace = [\n")[2].partition("\n  ]\n")[0].splitlines():
            named = next((name for pattern, name in _STAGES if re.search(pattern, frame)), None)
            if named is not None:
                stage = named
                break
        if stage in ("calc", "rows from Python") and source:  # Flink copies the texts that a query passes on
            stage = "query"
        found["columns of releases" if stage == "calc" else stage] += 1
    return found


def work(name: str, rows: int) -> dict[str, float]:
    """Run a job of ``benchmarks.job`` in this process; microseconds of a core a row, by stage, in the middle of it."""
    _instrumented()
    settings = job.settings_of(job.VARIANTS[name], rows)
    tables = environment.local_environment({"parallelism.default": "1", **settings.flink})
    client = pipeline.build(tables, settings, TimedFunction).execute()
    java, ended = _Java(), client.get_job_execution_result()
    _wait_for(rows * _FROM)
    java.start()
    first, before, python, own = CLOCK.rows, java.seconds(), time.process_time(), CLOCK.seconds.copy()
    _wait_for(rows * _TO)
    last, after, python, stages = CLOCK.rows, java.seconds(), time.process_time() - python, CLOCK.seconds - own
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.jfr"
        java.stop(path)
        command = [_jfr(), "print", "--events", "ExecutionSample", "--stack-depth", str(_DEPTH), str(path)]
        samples = stages_of(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ended.result()
    spent = after - before
    parts = {f"Java: {stage}": spent["work"] * count / samples.total() for stage, count in samples.items()}
    parts |= {"Java: compiles": spent["compile"], "Java: collects garbage": spent["collect"]}
    parts |= {f"Python: {stage}": seconds for stage, seconds in stages.items()}
    parts["Python: PyFlink itself"] = python - stages.total()
    return {stage: seconds / (last - first) * 1e6 for stage, seconds in parts.items()}


def _wait_for(rows: float) -> None:
    while rows > CLOCK.rows:
        time.sleep(0.02)


def _jfr() -> str:
    found = Path(os.environ["JAVA_HOME"]) / "bin" / "jfr"
    if not found.exists():
        raise SystemExit("where: this Java has no Flight Recorder (jfr); point JAVA_HOME to a whole JDK 17 or newer")
    return str(found)


def measure() -> dict[str, dict[str, float]]:
    """``work`` of each job, in a process of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in SETTINGS:
            variant, output = job.VARIANTS[name], f"{folder}/{name}"
            rows = variant.rows[1]
            given = job.variables_of(variant, rows, Path(folder), output)
            program = f"import json; from benchmarks.stages import work; print(json.dumps(work({name!r}, {rows})))"
            done = subprocess.run(
                [sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True
            )
            found[name] = json.loads(done.stdout.splitlines()[-1])
    return found


def tables() -> list[Table]:
    """Return the processor time of a row by stage, in microseconds, and draw it."""
    found = measure()
    stages = sorted({stage for parts in found.values() for stage in parts}, key=lambda s: (s.partition(":")[0], s))
    table = Table("Where a row's time goes (microseconds of a core)", ["stage", *(SETTINGS[name] for name in found)])
    for stage in stages:
        table.add(stage, *(f"{parts.get(stage, 0):.2f}" for parts in found.values()))
    table.add("all", *(f"{sum(parts.values()):.2f}" for parts in found.values()))
    save_figure(lambda: _figure({SETTINGS[name]: parts for name, parts in found.items()}), _FIGURE)
    return [table]


def _figure(jobs: Mapping[str, Mapping[str, float]]) -> Figure:
    """Return a figure with one panel per job: processor time of a row by stage, largest first."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(jobs), 5), layout="constrained")
    panels = figure.subplots(1, len(jobs), squeeze=False)[0]
    for (name, parts), panel in zip(jobs.items(), panels, strict=True):
        shown = sorted(parts.items(), key=lambda part: part[1])
        colors = [_COLORS[stage.partition(":")[0]] for stage, _ in shown]
        bars = panel.barh([stage for stage, _ in shown], [amount for _, amount in shown], color=colors)
        panel.bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
        panel.margins(x=0.15)
        panel.set_title(f"{name}: {sum(parts.values()):.1f} in all")
        panel.set_xlabel("microseconds of a core a row")
    return figure
