"""Run of a job on a mini-cluster in this process, from the start of Flink to the end of the input."""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.causes import JobSetup
from crenel.jobs.config.flink_settings import CHECKPOINTS
from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import file_uri, find_missing_inputs
from crenel.jobs.config.source import parse_options
from crenel.jobs.failure import why_failed, why_refused
from crenel.jobs.local.logs import JobError, flink_logs
from crenel.jobs.local.preload import load_core, start_java
from crenel.jobs.local.rest import Rest, WatermarkWatch
from crenel.jobs.local.stop import before_stopping, set_stop_message, temporary_folder
from crenel.jobs.local.summary import RunSummary
from crenel.jobs.local.worker import fast_worker_startup
from crenel.jobs.progress import Bar, progress_bar

_POLL = 0.2  # seconds between two checks of the job
_CANCELLING = 10.0  # seconds that a job may take to end cleanly when the run is stopped

LOCAL = {
    # Task counts that depend on the machine would make the releases depend on it.
    "parallelism.default": "1",
    # The operator needs to see the first failure, not its repetitions.
    "restart-strategy.type": "disable",
    "rest.address": "localhost",
    "rest.bind-port": "0",  # any that is free
    "metrics.fetcher.update-interval": "1000",
}


_SUMMARY = "summary"


def run(
    config: Config,
    *,
    parallelism: int | None = None,
    rows: int | None = None,
    warn: Callable[[Iterable[str]], None] = lambda _: None,
) -> RunSummary:
    """Run a job to the end of its input; show progress where stderr is a terminal.

    Parameters
    ----------
    parallelism : of all operators; None: as ``config.flink`` says, else 1
    rows : number of rows in the source, where known
    warn : called with the warnings about the job before it starts, beside ``config.warnings``

    Raises
    ------
    ConfigError
        The policy does not match the columns of the source, the input is missing, or Flink refused the job.
    JobError
        The job failed.
    JavaError
        No usable Java.
    """
    started = time.monotonic()
    require_inputs({field: parse_options(ddl) for field, ddl in config.source.statements.items()}, config.flink)
    with (
        flink_logs() as logs,
        temporary_folder("crenel-") as folder,
        fast_worker_startup(local_settings(config.flink, parallelism, folder), folder) as settings,
        progress_bar("starting Flink") as bar,
    ):
        set_stop_message("stopped before the job began")
        client, setup = _start(config, settings, folder / _SUMMARY, warn)
        rest = Rest(rest_address(client), str(client.get_job_id()))
        with before_stopping(lambda: rest.cancel(_CANCELLING)):
            watch = WatermarkWatch(rest, config.counts_event_time)

            def show() -> None:
                _show(bar, rows, rest)
                warn(watch.warnings())

            _wait(client, logs, setup, show)
        set_stop_message("stopped when the job had ended: all that it published stays")
        try:
            return RunSummary.of(
                _read_summary(folder / _SUMMARY),
                time.monotonic() - started,
                config.algorithm,
                config.privacy.reasons,
                config.counts_event_time,
                () if config.shards.regions is None else config.shards.regions.share.tolist(),
                config.policy,
            )
        except ValueError as error:
            raise JobError(f"the job ended, but {error}", logs) from None


def local_settings(settings: Mapping[str, str], parallelism: int | None, folder: Path) -> dict[str, str]:
    """Return Flink's settings for a run in this process; ``folder`` exists only during the run.

    ``settings`` are the configuration's and take precedence.
    """
    # Flink's default, the memory of its JobManager, takes no more than 5 MB of a shard.
    kept = {} if settings.keys() & set(CHECKPOINTS) else {CHECKPOINTS[0]: file_uri(folder / "checkpoints")}
    chosen = {} if parallelism is None else {"parallelism.default": str(parallelism)}
    return {**LOCAL, **kept, **settings, **chosen}


def ignore_disconnects() -> None:
    """Suppress the error message when Flink disconnects from the Python workers of this process at the end of a job.

    The thread that listens to Flink would print that as an error.
    """
    report = threading.excepthook

    def reported(ended: threading.ExceptHookArgs) -> None:
        code = getattr(ended.exc_value, "code", None)
        if not callable(code) or getattr(code(), "name", "") != "CANCELLED":
            report(ended)

    threading.excepthook = reported


def require_inputs(sources: Mapping[str, Mapping[str, str]], settings: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` if files of a source are missing, which a job would only report when it reads them.

    Parameters
    ----------
    sources : options of the tables that are read, by the field of their statement
    settings : of Flink
    """
    # Paths without a scheme belong to another file system then.
    missing = [] if "fs.default-scheme" in settings else list(find_missing_inputs(sources))
    if missing:
        raise ConfigError("it", missing)


def refused(error: BaseException, config: Config) -> ConfigError:
    """Return the error to raise where Flink refuses a configuration."""
    return ConfigError(
        "it", [f"Flink refuses the source, the query, a sink or a setting: {why_refused(error, config)}"]
    )


def _start(
    config: Config, settings: dict[str, str], folder: Path, warn: Callable[[Iterable[str]], None]
) -> tuple[Any, JobSetup]:
    # Importing Flink takes seconds, so it waits until the command line has been parsed.
    ignore_disconnects()
    java = start_java()
    from py4j.protocol import Py4JError
    from pyflink.util.exceptions import JavaException

    from crenel.jobs.pipeline.build import build
    from crenel.jobs.pipeline.environment import local_environment
    from crenel.jobs.pipeline.sql_expressions import literal

    java.join()
    try:
        load_core(partial(config.algorithm.compile, config.privacy))
        tables = local_environment(settings)
        job = build(tables, config)
        require_inputs(job.setup.sources, settings)
        # An internal sink beside the user's.
        tables.execute_sql(
            "CREATE TEMPORARY TABLE crenel_local_summary (shard INT, name STRING, amount DOUBLE) "
            f"WITH ('connector' = 'filesystem', 'path' = {literal(file_uri(folder))}, 'format' = 'csv')"
        )
        job.insert("crenel_local_summary", "SELECT shard, name, amount FROM crenel_summary")
        set_stop_message("stopped; the job was canceled, and what it had not published yet is lost")
        warn(job.warnings)
        return job.execute(), job.setup
    except (Py4JError, JavaException) as error:
        raise refused(error, config) from None


def _show(bar: Bar, rows: int | None, rest: Rest) -> None:
    """Show the number of rows that the job has read; ``rows``: in the source, where known."""
    if bar.is_shown and (read := rest.rows_read()):
        count = f"{read:,}" if rows is None else f"{read:,} of {rows:,}"
        bar.update("anonymizing", read, rows, f"{count} rows")


def rest_address(client: Any) -> str:
    """Return the address of the REST interface of a job's mini-cluster; nobody answers there once the job has ended.

    Only the mini-cluster knows its port. One that is chosen before it starts could be taken by then.
    """
    from py4j.protocol import Py4JError

    ours = client._j_job_client
    cluster = ours.getClass().getDeclaredField("miniCluster")
    cluster.setAccessible(True)
    try:
        return str(cluster.get(ours).getRestAddress().get().toString())
    except Py4JError:
        return "http://localhost:0"


def _wait(client: Any, logs: Path, setup: JobSetup, show: Callable[[], None]) -> None:
    from py4j.protocol import Py4JError
    from pyflink.util.exceptions import JavaException

    ended = client.get_job_execution_result()
    try:
        while not ended.done():
            show()
            time.sleep(_POLL)
        ended.result()
    except (Py4JError, JavaException) as error:
        raise JobError(f"the job failed: {why_failed(error, setup, logs=logs)}", logs) from None


def _read_summary(folder: Path) -> Iterator[tuple[int, str, float]]:
    for path in folder.rglob("part-*"):
        with path.open(encoding="utf-8", newline="") as file:
            for shard, name, amount in csv.reader(file):
                yield int(shard), name, float(amount)
