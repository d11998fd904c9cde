"""Latency of the whole job, by algorithm; with windows as in Table 7 of SUHDSA (Sensors 2026, Section 4.3).

This process sends rows of Adult to the job over a socket each millisecond, and records the due time of each. The job
records the time at which each row leaves the operator chain in front of its sink. The latency of a row begins at its
due time, also where a busy job accepts it later.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyflink.datastream import DataStream
from pyflink.table import Schema

from benchmarks.adult import COLUMNS, DATA, SUHDSA_COLUMNS
from benchmarks.measure import Table
from benchmarks.state import worker
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.jobs.config import load as config
from crenel.jobs.local.run import LOCAL
from crenel.jobs.pipeline import build as pipeline
from crenel.jobs.pipeline import environment

CONFIGURATION = Path(__file__).with_name("latency.yaml")
_FLOOD = 500_000  # rows that come first, as fast as they are taken: Java compiles; the second half tells the most
_SETTLE, _MEASURED, _REST = 4, 15, 1  # seconds at the rate: the flood ebbs, figures are taken, the end is kept out
_LEFT = 0.99  # of all rows, at least; CASTLE and nearest may suppress some
_PATIENCE = 300.0  # seconds until the job connects


def _low(milliseconds: int) -> dict[str, str]:
    return {"python.fn-execution.bundle.time": str(milliseconds), "execution.buffer-timeout.interval": "1 ms"}


_SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "bundles 200 ms": {"python.fn-execution.bundle.time": "200", "execution.buffer-timeout.interval": "100 ms"},
    "bundles 20 ms": _low(20),
    "bundles 5 ms": _low(5),
}
DELAY = 200
"""Tuples that CASTLE and nearest wait for."""

_ALGORITHMS = {
    "window": (
        "algorithm=suhdsa",
        "suhdsa={tuples: 50}",
        "sinks.windows={connector: filesystem, path: '${BENCH_OUTPUT}/windows', format: csv}",
    ),
    "castle": ("algorithm=castle", f"castle={{delay: {{tuples: {DELAY}}}}}"),
    "nearest": ("algorithm=nearest", f"nearest={{delay: {{tuples: {DELAY}}}, reuse_limit: 1000}}"),
}
_GOALS = {20_000: "40, -, 100", 2_000: "-", 100: "-, -, 60"}
_CASES = (  # algorithm, setting, where Python runs, rows a second
    *((name, "defaults", "process", rate) for name in _ALGORITHMS for rate in _GOALS),
    ("window", "defaults", "loopback", 20_000),
    *(("window", setting, "process", 20_000) for setting in list(_SETTINGS)[1:]),
)


@dataclass(frozen=True)
class Run:
    """Result of one run: milliseconds, one for each tuple that was due in the measured time.

    Attributes
    ----------
    whole : from when a tuple was due to the sink
    closed : from when the tuple was due that let it leave: with which its window closed, or the delay of one of its
        release ended
    rate, most : rows a second that reached the sink, then and while they came as fast as they were taken
    behind : the 99th percentile of how late rows were sent
    """

    whole: NDArray[np.float64]
    closed: NDArray[np.float64]
    rate: float
    most: float
    behind: float


def lines(rows: int) -> list[bytes]:
    """Rows of Adult, again and again, each with its number."""
    frame = pd.read_csv(DATA / "adult.data", header=None, names=COLUMNS, skipinitialspace=True)
    kept = frame[[*SUHDSA_COLUMNS, "income"]].to_csv(index=False, header=False).splitlines()
    return [f"{row},{kept[row % len(kept)]}\n".encode() for row in range(rows)]


def send(connection: socket.socket, rows: list[bytes], rate: int) -> tuple[NDArray[np.float64], float]:
    """Send rows, after the flood at a rate; when each of these was due, in epoch seconds, and ``Run.behind``."""
    for at in range(0, _FLOOD, 1000):
        connection.sendall(b"".join(rows[at : min(at + 1000, _FLOOD)]))
    step = np.arange(len(rows) - _FLOOD) * 1000 // rate  # the millisecond of each row
    ends = (_FLOOD + np.searchsorted(step, np.arange(step[-1] + 1), side="right")).tolist()
    parts = [b"".join(rows[start:end]) for start, end in zip([_FLOOD, *ends[:-1]], ends, strict=True)]
    behind = []
    begin = time.time()
    for number, part in enumerate(parts):
        wait = begin + number / 1000 - time.time()
        behind.append(-wait)
        if wait > 0:
            time.sleep(wait)
        connection.sendall(part)
    return begin + step / 1000, max(0.0, float(np.percentile(behind, 99) * 1000))


def work(port: int, algorithm: str, flink: Mapping[str, str]) -> None:
    """Run the job in this process until the socket ends."""
    settings = config.load(CONFIGURATION, [os.path.expandvars(given) for given in _ALGORITHMS[algorithm]])
    tables = environment.local_environment(LOCAL | dict(flink))
    text = DataStream(tables._get_j_env().socketTextStream("localhost", port))
    schema = Schema.new_builder().column("f0", "STRING").build()
    tables.create_temporary_view("lines", tables.from_data_stream(text, schema).alias("line"))
    job = pipeline.build(tables, settings)
    tables.execute_sql(
        "CREATE TEMPORARY TABLE left_at (`row` BIGINT, id BIGINT, kind STRING, batch BIGINT, moment TIMESTAMP_LTZ(3)) "
        f"WITH ('connector' = 'filesystem', 'path' = '{os.environ['BENCH_OUTPUT']}/left', 'format' = 'csv')"
    )
    # income is m0
    job.insert(
        "left_at",
        # Named below, batch costs nothing; in the list of columns it would have each row carry all of its releases.
        "SELECT `row`, release_id, kind, batch, CURRENT_ROW_TIMESTAMP() "
        "FROM (SELECT releases, releases[1].release_id AS batch FROM crenel_batches) "
        "CROSS JOIN UNNEST(releases) AS r CROSS JOIN UNNEST(m1) AS m (`row`)",
    )
    job.execute().get_job_execution_result().result()


def _written(folder: Path, columns: list[str]) -> pd.DataFrame:
    files = sorted(folder.glob("part-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    return pd.concat([pd.read_csv(path, header=None, names=columns) for path in files], ignore_index=True)


def run(algorithm: str, rate: int, flink: Mapping[str, str], mode: str = "process") -> Run:
    """Run the job once; ``mode`` is the place of its Python: ``process``, as on a cluster, or ``loopback``."""
    rows = lines(_FLOOD + rate * (_SETTLE + _MEASURED + _REST))
    with tempfile.TemporaryDirectory() as output, socket.create_server(("localhost", 0)) as server:
        variables = os.environ | {
            "BENCH_OUTPUT": output,
            "BENCH_HIERARCHIES": str(DATA),
            "FLINK_LOG_DIR": f"{output}/log",
            "_python_worker_execution_mode": mode,
        }
        server.settimeout(_PATIENCE)
        with ThreadPoolExecutor(1) as pool:
            port = server.getsockname()[1]
            job: Future[Any] = pool.submit(
                worker, port, json.dumps(algorithm), json.dumps(flink), variables=variables, module=__name__
            )
            connection, _ = server.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                due, behind = send(connection, rows, rate)
            job.result()
        left = _written(Path(output, "left"), ["row", "release", "kind", "batch", "moment"])
        if algorithm == "window":
            closing = _closed_by(_written(Path(output, "windows"), list(_windows())))
        else:
            closing = _expired_by(left, len(rows))
    return _figures(left, closing, np.concatenate([np.full(_FLOOD, np.nan), due]), rate, behind)


def _windows() -> Mapping[str, str]:
    (output,) = (output for output in Suhdsa.outputs if output.name == "windows")
    return output.columns


def _closed_by(windows: pd.DataFrame) -> NDArray[np.int64]:
    """Return the row that closed the window in which each row was published."""
    released = (windows["tuples"] - windows["carried"]).to_numpy()
    # All that has come by the close of a window has left with it or before, or is carried: so the last to come closed.
    found: NDArray[np.int64] = np.repeat(np.cumsum(released) + windows["carried"].to_numpy() - 1, released)
    return found


def _expired_by(left: pd.DataFrame, rows: int) -> NDArray[np.int64]:
    """Return the row that ended the delay of each release's first; -1 where the input, of ``rows``, ended before.

    A part of a cluster that was split leaves as another part's delay ends: that of the first of all parts that leave
    together, or later, once its own last row is there. So this is the true row or one before it, never one after it.
    """
    split = (left["kind"] == "split").to_numpy()
    first = left.groupby([left["batch"], left["release"].mask(split, -1)])["row"].transform("min").to_numpy()
    last = left.groupby("release")["row"].transform("max").to_numpy()
    closing = np.maximum(first + DELAY, np.where(split, last, -1))
    return np.where(closing >= rows, -1, closing)


def _figures(left: pd.DataFrame, closing: NDArray[np.int64], due: NDArray[np.float64], rate: int, behind: float) -> Run:
    if len(left) != len(closing) or len(left) < len(due) * _LEFT:
        raise RuntimeError(f"{len(left):,} of {len(due):,} rows left; the others were suppressed or lost")
    row = left["row"].to_numpy()
    moment = pd.to_datetime(left["moment"], utc=True, format="ISO8601").astype("int64").to_numpy() / 1e9
    if (row > closing)[closing >= 0].any():
        raise RuntimeError("a row left before the one that let it")
    waited: NDArray[np.float64] = np.asarray(moment - due[closing], np.float64)
    flood = (row >= _FLOOD // 2) & (row < _FLOOD)
    paced = (row >= _FLOOD + _SETTLE * rate) & (row < _FLOOD + (_SETTLE + _MEASURED) * rate)
    return Run(
        whole=(moment - due[row])[paced] * 1000,
        closed=waited[paced & (closing >= 0)] * 1000,
        rate=_rate(moment[paced]),
        most=_rate(moment[flood]),
        behind=behind,
    )


def _rate(moments: NDArray[np.float64]) -> float:
    """Rows a second; those of the first moment came in the time before it."""
    return float((moments > moments.min()).sum() / np.ptp(moments))


def _cell(figures: NDArray[np.float64]) -> str:
    return ", ".join(f"{figure:.0f}" for figure in np.percentile(figures, [50, 95, 99]))


def latency_table() -> Table:
    """Latency beyond what the algorithm waits for; each run has a row of its own."""
    table = Table(
        f"From source to sink, at k = 10, l = 2; windows of 50, or a delay of {DELAY} (p50, p95, p99 in ms)",
        [
            *("algorithm", "setting", "Python", "rows/s sent", "rows/s at the sink", "beyond the algorithm's wait"),
            *("to reach", "from the tuple", "most rows/s", "sent late, p99"),
        ],
    )
    for algorithm, setting, mode, rate in _CASES:
        one = run(algorithm, rate, _SETTINGS[setting], mode)
        table.add(
            *(algorithm, setting, mode, f"{rate:,}", f"{one.rate:,.0f}", _cell(one.closed), _GOALS[rate]),
            *(_cell(one.whole), f"{one.most:,.0f}", f"{one.behind:.1f} ms"),
        )
    return table


def tables() -> list[Table]:
    """Print all tables of this file."""
    return [latency_table()]


if __name__ == "__main__":
    work(*map(json.loads, sys.argv[1:]))
    print("null")
