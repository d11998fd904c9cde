"""The algorithm and the promise of the tests, stopped and restored on a cluster.

That each algorithm goes on from its state: ``tests/operators/test_restored.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extension_points.stream import CONFIGURATION, visits
from tests.support.cluster import Cluster, restored

pytestmark = pytest.mark.cluster("standalone_restores")


def test_a_job_that_is_stopped_and_restored_publishes_what_it_would_have_published(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("\n".join(visits(20_000)) + "\n", encoding="ascii")
    undisturbed, disturbed = (paced(tmp_path, name) for name in ("undisturbed", "disturbed"))
    beside = cluster.submit(undisturbed)
    job = cluster.submit(disturbed, rate=2000)
    cluster.wait(lambda: bool(lines(disturbed, "released")), "release")
    savepoint = cluster.stop_job(job, tmp_path / "savepoints")
    stopped = lines(disturbed, "released")
    for submitted in (cluster.submit(disturbed, restored(savepoint)), beside):
        cluster.wait_for_end(submitted)
    found = {name: lines(disturbed, name) for name in ("released", "suppressed", "audit")}
    assert stopped not in ([], found["released"])
    assert found == {name: lines(undisturbed, name) for name in found}
    assert len(found["released"]) + len(found["suppressed"]) == 20_000
    assert len(found["released"]) > 10_000


def paced(folder: Path, name: str) -> Path:
    """Return a configuration in a folder of its own, whose source can be as slow as a live one."""
    of = folder / name
    of.mkdir()
    text = CONFIGURATION.format(folder=of).replace(f"{of}/in.csv", f"{folder}/in.csv")
    text = text.replace("\nsinks:", "\n  query: SELECT paced(id) AS id, who, x, illness FROM source\nsinks:")
    text += "flink: {execution.checkpointing.interval: 1 s, python.fn-execution.bundle.size: '200'}\n"
    (of / "job.yaml").write_text(text, encoding="utf-8")
    return of / "job.yaml"


def lines(configuration: Path, name: str) -> list[str]:
    """Return the committed rows of an output, sorted."""
    files = (configuration.parent / name).rglob("part-*")
    return sorted(line for file in files for line in file.read_text(encoding="ascii").splitlines())
