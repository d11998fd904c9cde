"""A job whose worker is killed, that is stopped and goes on at another parallelism, publishes what a program does."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import crenel
from crenel.jobs.causes import JobSetup
from crenel.jobs.failure import why_failed
from tests.support.cluster import RESTARTS, JobClient, free_port, restored, with_settings
from tests.support.launch import TIMEOUT, Host
from tests.support.people import configure, persons, published, raw_values, rows_in_order, write
from tests.support.programs import LINK, require_same_rows

ROWS = 12_000
SLOW = 500  # rows a second, so that there is time to kill a worker


class MiniCluster(JobClient):
    """A job in the shared process, with workers of its own; its mini-cluster ends with it."""

    def __init__(self, mini: Host, path: Path, *, rate: int, parallelism: int, savepoint: Path | None = None) -> None:
        super().__init__(free_port())
        self._mini = mini
        settings = {"rest.port": self._rest, "rest.bind-port": self._rest, "parallelism.default": parallelism}
        settings |= RESTARTS | ({} if savepoint is None else restored(savepoint))
        arguments = ("--config", path, *with_settings(path, settings))
        self._ended = ThreadPoolExecutor(1).submit(mini.paced, *arguments, CRENEL_TEST_RATE=str(rate))

    def job(self) -> str:
        """Wait for the job, and return its id."""
        found: list[str] = []

        def is_there() -> bool:
            with suppress(OSError):
                found.extend(job["id"] for job in self.get("/jobs")["jobs"] if job["status"] == "RUNNING")
            return bool(found)

        self.wait(is_there, "job")
        return found[0]

    def require_end(self) -> None:
        """Wait until the job has ended well."""
        done = self._ended.result(TIMEOUT)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "The job has ended."), done.stdout + done.stderr

    def _check(self) -> None:
        assert not self._ended.done(), self._ended.result().stdout + self._ended.result().stderr

    def _parent(self) -> int:
        return self._mini.process


def test_through_a_kill_a_stop_and_another_parallelism(mini: Host, tmp_path: Path) -> None:
    people = write(tmp_path, persons(ROWS))
    path = configure(people, tmp_path / "job", way="nearest by regions")
    path.write_text(path.read_text(encoding="utf-8").replace("tuples: 2000", "tuples: 200"), encoding="utf-8")
    cluster = MiniCluster(mini, path, rate=SLOW, parallelism=1)
    job = cluster.job()
    cluster.wait_for_checkpoint(job)
    time.sleep(random.Random(4).uniform(0, 1))
    cluster.wait(cluster.kill_worker, "Python worker")
    cluster.wait(lambda: cluster.restored(job) > 0, "restart")
    (failure,) = cluster.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
    why = why_failed(failure["stacktrace"], JobSetup({}, {}, {}), failure["exceptionName"])
    assert why.startswith("a Python worker ended"), failure
    cluster.wait(lambda: bool(published(path.parent)["released"]), "release")
    target = tmp_path / "savepoints"
    cluster.post(f"/jobs/{job}/stop", {"targetDirectory": str(target), "formatType": "CANONICAL", "drain": False})
    cluster.require_end()
    (savepoint,) = target.iterdir()
    assert raw_values(savepoint) == []
    stopped_at = len(published(path.parent)["released"])

    MiniCluster(mini, path, rate=0, parallelism=2, savepoint=savepoint).require_end()
    result = crenel.anonymize(rows_in_order(people), crenel.load(path))
    assert 0 < stopped_at < result.released.num_rows
    assert result.released.num_rows + result.suppressed.num_rows == ROWS
    for name, further in (("released", ()), ("suppressed", ()), ("audit", LINK)):
        require_same_rows(path.parent / "out" / name, getattr(result, name), further)
