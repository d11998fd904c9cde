"""State: what a buffered tuple takes, and what checkpoints cost; each figure from a process of its own."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from pyflink.common import JobClient

from benchmarks import job, measure
from benchmarks.adult import MEMBERS, Stream, stream
from benchmarks.measure import Table
from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.privacy import Privacy
from crenel.jobs.config import load as config
from crenel.jobs.config.source import Source
from crenel.jobs.local.rest import Rest
from crenel.jobs.local.run import LOCAL, rest_address
from crenel.jobs.pipeline import build as pipeline
from crenel.jobs.pipeline import environment
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import ShardFunction
from crenel.state.shard import Changes, StoredShard

_ALGORITHMS = {algorithm.name: algorithm for algorithm in (Castle, Nearest)}
SIZES = (10_000, 100_000, 1_000_000)
_COUNTED_SIZES = (100_000, 1_000_000)
_TURNS = 4
_TURNED = f"a delay of {_COUNTED_SIZES[0]:,}, {_TURNS} times as many came"
_PEOPLE = {"none": 0, "a person a tuple": 1, "5 tuples a person": 5}
_BLOCK = 2000
_FULL = 3  # checkpoints that are looked at once everything is buffered
_PATIENCE = 1800.0  # seconds
_BACKENDS = {
    "hashmap, full": {"state.backend.type": "hashmap", "execution.checkpointing.incremental": "false"},
    "RocksDB, full": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "false"},
    "RocksDB, incremental": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
}
_COLUMNS = [
    *(
        "buffered",
        "back end",
        "median duration",
        "checkpointed, bytes",
        "full size, bytes",
        "most checkpointed at once",
    ),
    *("largest sync", "largest sync, also while filling", "to reach"),
]
_INTERVALS = {"every second": "1 s", "none": "10 h"}
_COMPARED = ("hashmap, full", "RocksDB, incremental")
WAITING = 1_000_000
_ROWS = 2_400_000
_MEASURED = (1_050_000, 2_300_000)  # rows that have been let in: the shard is full, and the input goes on


def _terms(algorithm: type[Castle | Nearest], tuples: Stream, delay: int, diversity: int = 1) -> ShardContext:
    parameters = algorithm(Delay(delay, jitter=0.0), reuse_limit=1000)
    return ShardContext(tuples.policy, Privacy(10, diversity), parameters, MEMBERS)


def _fill(algorithm: type[Algorithm], terms: ShardContext, tuples: Stream, write: Callable[[Changes], object]) -> Shard:
    shard = algorithm.new(terms, 0, bytes(32))
    for block in tuples.blocks(_BLOCK):
        changes = shard.push(block).changes
        if changes is not None:
            write(changes)
    if shard.counters.buffered != len(tuples) <= terms.algorithm.delay_tuples:
        raise RuntimeError(f"{shard.counters.buffered:,} of {len(tuples):,} tuples are buffered")
    return shard


def _store_and_restore(algorithm: type[Castle | Nearest], tuples: Stream) -> list[float]:
    written: list[Changes] = []
    terms = _terms(algorithm, tuples, 2 * len(tuples))  # nothing leaves
    _fill(algorithm, terms, tuples, written.append)
    kept = StoredShard(b"", {})
    for changes in written:
        kept.apply(changes)
    start = time.perf_counter()
    shard = algorithm.restored(terms, kept, "")
    seconds = time.perf_counter() - start
    if shard.counters.buffered != len(tuples):
        raise RuntimeError(f"{shard.counters.buffered:,} of {len(tuples):,} tuples came back")
    return [len(kept.shard) + sum(len(blob) for held in kept.entries.values() for blob in held.values()), seconds]


def _resident() -> int:
    gc.collect()
    return measure.resident()


def stored(name: str, size: int) -> list[float]:
    """Bytes of state of so many buffered tuples, and the seconds of a restore (compiled before)."""
    _store_and_restore(_ALGORITHMS[name], stream().enlarged(_BLOCK))  # compile
    return _store_and_restore(_ALGORITHMS[name], stream().enlarged(size))


def resident(name: str, size: int, each: int = 0, diversity: int = 1, turns: int = 1) -> list[int]:
    """Resident bytes of this process before and after so many tuples are buffered; what is to be stored is dropped.

    ``each`` is how many tuples a person has (0: the policy names no subject), ``diversity`` is l. ``turns`` times as
    many tuples come under a delay of so many, of which fewer wait in the end where some leave early. How many wait is
    the last that is returned.
    """
    algorithm = _ALGORITHMS[name]
    many, few = (
        (one.of_people(each) if each else one) for one in map(stream().enlarged, (turns * size, (turns + 1) * _BLOCK))
    )
    _fill(algorithm, _terms(algorithm, few, _BLOCK, diversity), few, id)  # compile
    before = _resident()
    shard = _fill(algorithm, _terms(algorithm, many, size, diversity), many, id)
    return [before, _resident(), shard.counters.buffered]


def worker(*arguments: object, variables: Mapping[str, str] = os.environ, module: str = __name__) -> Any:
    """Return the result of a benchmark's function in a process of its own: its name and its arguments, as JSON."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def core_table() -> Table:
    """Print the state and the memory of a buffered tuple."""
    table = Table(
        f"State and memory of one shard (Adult enlarged, ten quasi-identifiers, k = 10, blocks of {_BLOCK:,})",
        [
            *("algorithm", "buffered", "state, bytes", "a tuple", "restore", "resident before", "after"),
            *("a tuple, bytes", "to reach"),
        ],
    )
    for size in SIZES:
        for name in _ALGORITHMS:
            state, seconds = worker("stored", json.dumps(name), size)
            before, after, _ = worker("resident", json.dumps(name), size)
            table.add(
                *(name, f"{size:,}", f"{state:,}", f"{state / size:.1f}", f"{seconds:.3f} s"),
                *(f"{before / 1e6:.1f} MB", f"{after / 1e6:.1f} MB", f"{(after - before) / size:.0f}"),
                "< 200" if name == "castle" else "no more stored than castle",
            )
    return table


def memory_table() -> Table:
    """Print the memory of a buffered tuple where persons or values are counted, and after releases."""
    table = Table(
        f"Memory of a buffered tuple, bytes (as above; of castle, to reach: < 200 at {_COUNTED_SIZES[-1]:,})",
        ["algorithm", "subject", "l", *(f"{size:,} buffered" for size in _COUNTED_SIZES), _TURNED],
    )
    for name in _ALGORITHMS:
        for subject, each in _PEOPLE.items():
            for diversity in (1, 2):
                cells = []
                for size, turns in (*((size, 1) for size in _COUNTED_SIZES), (_COUNTED_SIZES[0], _TURNS)):
                    before, after, _ = worker("resident", json.dumps(name), size, each, diversity, turns)
                    cells.append(f"{(after - before) / size:.0f}")
                table.add(name, subject, diversity, *cells)
    return table


def start(
    settings: config.Config,
    flink: Mapping[str, str],
    operator: Callable[[AnonymizationPlan], ShardFunction] = ShardFunction,
) -> tuple[JobClient, Rest, float]:
    """Start a job in this process; also the ``time.perf_counter()`` at which it had been planned, and was submitted."""
    ours = {"web.checkpoints.history": "1000"}
    planned = pipeline.build(environment.local_environment(LOCAL | ours | dict(flink)), settings, operator)
    submitted = time.perf_counter()
    client = planned.execute()
    return client, Rest(rest_address(client), str(client.get_job_id())), submitted


def _ask(rest: Rest, path: str) -> Any:
    for _ in range(50):
        with suppress(OSError):  # a busy cluster answers late
            return rest.get(path)
        time.sleep(0.2)
    raise RuntimeError(f"no answer from {path}")


def checkpoints(rows: int, flink: Mapping[str, str]) -> list[dict[str, Any]]:
    """Completed checkpoints of a job that buffers so many rows and does not end, as Flink's REST interface has them.

    ``full`` tells those that were triggered once everything was buffered, ``sync`` is that of the castle task.
    """
    settings = config.load(job.CONFIGURATION, [f"castle.delay.tuples={2 * rows}", "shards.count=1"])
    ddl = settings.source.ddl.replace("'format'", "'source.monitor-interval' = '1 s', 'format'")
    client, rest, _ = start(replace(settings, source=Source(ddl)), flink)
    ended, deadline = client.get_job_execution_result(), time.monotonic() + _PATIENCE
    full_from: float | None = None
    completed: list[dict[str, Any]] = []
    while full_from is None or sum(one["trigger_timestamp"] >= full_from for one in completed) < _FULL:
        time.sleep(0.2)
        if ended.done() or time.monotonic() > deadline:
            raise RuntimeError(f"{rest.rows_read()} of {rows:,} rows read, {len(completed)} checkpoints completed")
        if full_from is None and rest.rows_read() == rows:
            full_from = time.time() * 1000
        if full_from is not None:
            completed = [one for one in _ask(rest, "/checkpoints")["history"] if one["status"] == "COMPLETED"]
    [vertex] = [one["id"] for one in _ask(rest, "")["vertices"] if "castle" in one["name"]]
    for one in completed:
        [subtask] = _ask(rest, f"/checkpoints/details/{one['id']}/subtasks/{vertex}")["subtasks"]
        one |= {"full": one["trigger_timestamp"] >= full_from, "sync": subtask["checkpoint"]["sync"]}
    client.cancel().result()
    return completed


def checkpoint_table() -> Table:
    """Print the durations of checkpoints of the whole job; the stream stands still in their synchronous part."""
    title = f"Checkpoints of the whole job (one shard, every 2 s; the last {_FULL} or more with all rows buffered)"
    table = Table(title, _COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            source = Path(tempfile.mkdtemp(dir=folder))
            for name, settings in _BACKENDS.items():
                with tempfile.TemporaryDirectory(dir=folder) as output:
                    variables = job.variables(size, source, output) | {"BENCH_INPUT": str(source)}
                    flink = {**settings, **_checkpointing(output, "2 s")}
                    found = worker("checkpoints", size, json.dumps(flink), variables=variables)
                full = [one for one in found if one["full"]]
                table.add(
                    *(f"{size:,}", name, f"{median(one['end_to_end_duration'] for one in full):.0f} ms"),
                    *(f"{median(one[key] for one in full):,.0f}" for key in ("checkpointed_size", "state_size")),
                    f"{max(one['checkpointed_size'] for one in found):,}",
                    *(f"{max(one['sync'] for one in some)} ms" for some in (full, found)),
                    "sync <= 200 ms" if size == 100_000 else "-",
                )
    return table


def _checkpointing(output: str, interval: str) -> dict[str, str]:
    return {"execution.checkpointing.interval": interval, "execution.checkpointing.dir": f"file://{output}/checkpoints"}


def rate(flink: Mapping[str, str]) -> list[float]:
    """Rows a second of the castle job of ``benchmarks.job`` under these settings, and the checkpoints it completed.

    The rate is that of the job at work, a million tuples waiting, from what it tells of itself each second.
    """
    client, rest, _ = start(config.load(job.CONFIGURATION, [f"castle.delay.tuples={WAITING}"]), flink)
    ended, completed = client.get_job_execution_result(), 0
    points: list[tuple[float, int]] = []
    while not ended.done():
        rows = rest.rows_read()
        if rows is not None and _MEASURED[0] <= rows <= _MEASURED[1] and (not points or rows > points[-1][1]):
            points.append((time.perf_counter(), rows))
            completed = _ask(rest, "/checkpoints")["counts"]["completed"]
        time.sleep(0.1)
    ended.result()
    (first, few), (last, many) = points[0], points[-1]
    return [(many - few) / (last - first), completed]


def _rate(backend: str, interval: str, folder: Path) -> list[float]:
    with tempfile.TemporaryDirectory(dir=folder) as output:
        variables = job.variables(_ROWS, folder, output)
        flink = _BACKENDS[backend] | _checkpointing(output, _INTERVALS[interval])
        found: list[float] = worker("rate", json.dumps(flink), variables=variables)
        files = filter(Path.is_file, Path(variables["BENCH_OUTPUT"]).rglob("*"))
        if (written := sum(file.read_bytes().count(b"\n") for file in files)) < _ROWS * 0.99:
            raise RuntimeError(f"{written:,} of {_ROWS:,} rows were written")
        return found


def throughput_table(repeats: int = 5) -> Table:
    """Rows a second of the job while a million tuples wait, with checkpoints and without."""
    title = (
        f"Throughput with checkpoints (castle job of the table of jobs, {WAITING:,} wait, median of {repeats}, in turn)"
    )
    columns = ["back end", "checkpoints", "completed until then", "rows/s", "each", "of none", "to reach"]
    table = Table(title, columns)
    arms = [(backend, interval) for backend in _COMPARED for interval in _INTERVALS]
    runs: dict[tuple[str, str], list[list[float]]] = {arm: [] for arm in arms}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for arm in arms:
                runs[arm].append(_rate(*arm, Path(folder)))
    rates = {arm: [each for each, _ in found] for arm, found in runs.items()}
    for backend, interval in arms:
        found = rates[backend, interval]
        table.add(
            *(backend, interval, f"{median(completed for _, completed in runs[backend, interval]):.0f}"),
            *(f"{median(found):,.0f}", ", ".join(f"{each:,.0f}" for each in found)),
            *(f"{median(found) / median(rates[backend, 'none']):.2f}", "-" if interval == "none" else "0.95"),
        )
    return table


_WORK: dict[str, Callable[..., object]] = {work.__name__: work for work in (stored, resident, checkpoints, rate)}


def tables() -> list[Table]:
    """Print all tables of this file."""
    return [core_table(), memory_table(), checkpoint_table(), throughput_table()]


if __name__ == "__main__":
    print(json.dumps(_WORK[sys.argv[1]](*map(json.loads, sys.argv[2:]))), flush=True)
