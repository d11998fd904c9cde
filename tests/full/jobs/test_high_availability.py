"""A job outlives its JobManager, and one of two TaskManagers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import crenel
from tests.support.cluster import AvailableCluster
from tests.support.launch import running
from tests.support.people import configure, persons, rows_in_order, write
from tests.support.programs import LINK, require_same_rows

ROWS = 8000
SLOW = 800  # rows a second, so that there is time to kill

pytestmark = pytest.mark.cluster


def test_a_dead_jobmanager_and_a_dead_taskmanager_of_two_neither_lose_nor_repeat_a_record(tmp_path: Path) -> None:
    people = write(tmp_path, persons(ROWS))
    path = configure(people, tmp_path / "job", way="nearest by regions")
    folder = tmp_path / "cluster"
    folder.mkdir()
    with running(AvailableCluster(folder, taskmanagers=2)) as cluster:
        settings = {
            "parallelism.default": 2,
            "execution.checkpointing.dir": (tmp_path / "checkpoints").as_uri(),
        }
        job = cluster.submit(path, settings, rate=SLOW)
        continues(cluster, job, restores=0, on=2)
        cluster.kill_jobmanager()
        continues(cluster, job, restores=1, on=2)
        cluster.kill_taskmanager()
        continues(cluster, job, restores=2, on=1)
        cluster.wait_for_end(job)
    result = crenel.anonymize(rows_in_order(people), crenel.load(path))
    assert result.released.num_rows > 0.9 * ROWS
    for name, further in (("released", ()), ("suppressed", ()), ("audit", LINK)):
        require_same_rows(path.parent / "out" / name, getattr(result, name), further)


def continues(cluster: AvailableCluster, job: str, *, restores: int, on: int) -> None:
    """Wait for a checkpoint of a job that was restored at least ``restores`` times and runs on ``on`` TaskManagers."""

    def is_there() -> bool:
        with suppress(OSError):  # a JobManager that has just started does not know all of a job
            return cluster.restored(job) >= restores and len(taskmanagers(cluster, job)) == on
        return False

    cluster.wait(is_there, f"restore {restores} on {on} TaskManagers")
    cluster.wait_for_checkpoint(job)


def taskmanagers(cluster: AvailableCluster, job: str) -> set[str]:
    """Return the TaskManagers that run tasks of a job."""
    vertices = cluster.get(f"/jobs/{job}")["vertices"]
    found = [cluster.get(f"/jobs/{job}/vertices/{vertex['id']}/taskmanagers") for vertex in vertices]
    return {part["taskmanager-id"] for answer in found for part in answer["taskmanagers"]}
