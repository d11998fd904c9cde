"""Restores in Flink: seconds from submitting a job to its first release, with a savepoint and without one.

One row after a restore makes the oldest buffered tuple overdue, so one cluster is released. More rows would release the
whole buffer with them, as without a restore, and that takes far longer than the restore.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyflink.datastream import KeyedProcessFunction
from pyflink.java_gateway import get_gateway

from benchmarks import job
from benchmarks.measure import Table
from benchmarks.state import SIZES, start, worker
from crenel.jobs.config import load as config
from crenel.jobs.config.source import Source
from crenel.operators.shards.function import KeyedShard, ShardFunction

_BACKENDS = {"hashmap": "hashmap", "RocksDB": "rocksdb"}
_UNSAVED = 2000  # rows that come where nothing was saved; the delay is half of them
_PATIENCE = 1800.0  # seconds


class Timed(ShardFunction):
    """Shard function that records the seconds of loading the shard, and those of its first block."""

    _written = False
    _loading = 0.0

    def _load(self, *arguments: Any) -> KeyedShard:
        started_at = time.perf_counter()
        keyed = super()._load(*arguments)
        self._loading = time.perf_counter() - started_at
        return keyed

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        started_at = time.perf_counter()
        outputs = list(super().process_element(value, ctx))
        if not self._written:
            seconds = [self._loading, time.perf_counter() - started_at]
            Path(f"{os.environ['BENCH_OUTPUT']}.seconds").write_text(json.dumps(seconds))
            self._written = True
        yield from outputs


def _settings(delay: int) -> config.Config:
    settings = config.load(job.CONFIGURATION, [f"castle.delay.tuples={delay}", "shards.count=1"])
    # The folder has no end, so that the job stands where it is until it is stopped.
    ddl = settings.source.ddl.replace("'format'", "'source.monitor-interval' = '100 ms', 'format'")
    return replace(settings, source=Source(ddl))


def save(rows: int, flink: Mapping[str, str], folder: str) -> str:
    """Stop a job that buffers so many rows and has released none; the folder of its savepoint."""
    client, rest, _ = start(_settings(rows), flink)
    until = time.monotonic() + _PATIENCE
    while rest.rows_read() != rows:
        if time.monotonic() > until:
            raise RuntimeError(f"{rest.rows_read()} of {rows:,} rows read")
        time.sleep(0.2)
    # client.stop_with_savepoint calls a method that Flink 2 no longer has.
    form = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
    saving = client._j_job_client.stopWithSavepoint(False, folder, form)
    # The mini-cluster ends with its job, sometimes before it has answered: then the folder tells.
    while not saving.isDone() and not _complete(folder):
        time.sleep(1)
    return str(saving.get()) if saving.isDone() else _complete(folder)[0]


def _complete(folder: str) -> list[str]:
    written = [path for path in Path(folder).glob("savepoint-*/_metadata") if path.stat().st_mtime < time.time() - 1]
    return [str(path.parent) for path in written]


def resume(delay: int, flink: Mapping[str, str]) -> list[float]:
    """Seconds from submitting a job to the first row at its sink, which then makes a file; those of ``Timed``."""
    client, _, submitted = start(_settings(delay), flink, Timed)
    output = Path(os.environ["BENCH_OUTPUT"])
    while not any(map(Path.is_file, output.rglob("*"))):
        if time.perf_counter() - submitted > _PATIENCE:
            raise RuntimeError("the job released nothing")
        time.sleep(0.01)
    seconds = time.perf_counter() - submitted
    client.cancel().result()
    return [seconds, *json.loads(Path(f"{output}.seconds").read_text())]


def _worker(folder: Path, source: Path, *arguments: object) -> Any:
    with tempfile.TemporaryDirectory(dir=folder) as output:
        variables = job.variables(1, folder, output) | {"BENCH_INPUT": str(source)}
        variables["_python_worker_execution_mode"] = "process"  # as on a cluster
        return worker(*arguments, variables=variables, module=__name__)


def restore_table(repeats: int = 3) -> Table:
    """Seconds to the first release, by tuples that the savepoint holds, and without a savepoint."""
    table = Table(
        f"Restores of the whole job (one shard, Python in processes of its own; best of {repeats})",
        [
            *("buffered", "back end", "savepoint, bytes", "submission to first release", "worst", "more than without"),
            *("loading the shard", "its first block", "to reach"),
        ],
    )
    without: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in (0, *SIZES):
            source, saved = Path(tempfile.mkdtemp(dir=folder)), ""
            if rows:
                (source / "first.csv").symlink_to(job.rows_file(rows, folder))
                kept = {"execution.checkpointing.dir": Path(tempfile.mkdtemp(dir=folder)).as_uri()}
                saved = _worker(
                    folder, source, "save", rows, json.dumps(kept), json.dumps(tempfile.mkdtemp(dir=folder))
                )
            (source / "later.csv").symlink_to(job.rows_file(1 if rows else _UNSAVED, folder))
            held = sum(path.stat().st_size for path in Path(saved.removeprefix("file:")).rglob("*")) if saved else 0
            for title, backend in _BACKENDS.items():
                flink = {"execution.checkpointing.dir": Path(tempfile.mkdtemp(dir=folder)).as_uri()}
                flink |= {"state.backend.type": backend} | ({"execution.state-recovery.path": saved} if saved else {})
                arguments = (folder, source, "resume", rows or _UNSAVED // 2, json.dumps(flink))
                found = sorted(_worker(*arguments) for _ in range(repeats))
                best, *ours = (min(seconds) for seconds in zip(*found, strict=True))
                more = best - without.setdefault(backend, best)
                table.add(
                    *(f"{rows:,}" if saved else "no savepoint", title, f"{held:,}" if saved else "-"),
                    *(f"{best:.1f} s", f"{found[-1][0]:.1f} s", f"{more:.1f} s" if saved else "-"),
                    *(f"{seconds:.2f} s" for seconds in ours),
                    "3 s more" if rows == SIZES[-1] else "-",
                )
    return table


def tables() -> list[Table]:
    """Print all tables of this file."""
    return [restore_table()]


_WORK: dict[str, Callable[..., object]] = {work.__name__: work for work in (save, resume)}

if __name__ == "__main__":
    print(json.dumps(_WORK[sys.argv[1]](*map(json.loads, sys.argv[2:]))), flush=True)
