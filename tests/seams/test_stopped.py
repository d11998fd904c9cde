"""The algorithm and the promise of the tests, and what else waits, stopped and restored on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seams.stream import CONFIGURATION, visits
from tests.support.cluster import Cluster, restored

pytestmark = pytest.mark.cluster("standalone_restores")

REGIONS = """
version: 1
attributes: {x: {domain: [0, 100]}}
tree:
  cut: x
  below: 40
  left: {shard: 0, share: 0.4, loss: 0.2}
  right: {shard: 1, share: 0.6, loss: 0.3}
"""


@pytest.mark.parametrize("algorithm", ["in_order", "castle", "nearest", "lasting", "regions", "mondrian", "ola"])
def test_a_job_that_is_stopped_and_restored_publishes_what_it_would_have_published(
    cluster: Cluster, tmp_path: Path, algorithm: str
) -> None:
    (tmp_path / "in.csv").write_text("\n".join(visits(20_000)) + "\n", encoding="ascii")
    undisturbed, disturbed = (paced(tmp_path, name, algorithm) for name in ("undisturbed", "disturbed"))
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


def paced(folder: Path, name: str, algorithm: str) -> Path:
    """A configuration in a folder of its own, whose source can be as slow as a live one."""
    of = folder / name
    of.mkdir()
    text = CONFIGURATION.format(folder=of).replace(f"{of}/in.csv", f"{folder}/in.csv")
    text = text.replace("\nsinks:", "\n  query: SELECT paced(id) AS id, who, x, illness FROM source\nsinks:")
    text += "flink: {execution.checkpointing.interval: 1 s, python.fn-execution.bundle.size: '200'}\n"
    section = {
        "castle": "castle: {delay: {tuples: 40}}",
        "nearest": "algorithm: nearest\nnearest: {delay: {tuples: 40, jitter: 0.25}, reuse_limit: 1000}",
        "lasting": "algorithm: nearest\nnearest: {delay: {tuples: 40, jitter: 0.25}, reuse_limit: 1000}",
        "regions": "algorithm: nearest\nnearest: {delay: {tuples: 20, jitter: 0.25}, reuse_limit: 1000}\n"
        "shards: {count: 2, by: regions, regions: regions.yaml}",
        "mondrian": "algorithm: mondrian\nmondrian: {window: {tuples: 500}}",
        "ola": "algorithm: ola\nola: {window: {tuples: 500}}",
    }.get(algorithm, "algorithm: in_order\nin_order: {most: 20}")
    text = text.replace("algorithm: in_order\nin_order: {most: 20}", section)
    if algorithm == "lasting":
        text = text.replace("at_most: 0.6", "persons: {promise: lasting}")
    if algorithm == "ola":  # which moves numbers by levels
        levels = "{type: categorical, hierarchy: {numbers: {domain: [0, 100], levels: [1, 5, 20]}}}"
        text = text.replace("{type: numeric, domain: [0, 100]}", levels)
    (of / "regions.yaml").write_text(REGIONS, encoding="utf-8")
    (of / "job.yaml").write_text(text, encoding="utf-8")
    return of / "job.yaml"


def lines(configuration: Path, name: str) -> list[str]:
    """What was committed of an output, sorted."""
    files = (configuration.parent / name).rglob("part-*")
    return sorted(line for file in files for line in file.read_text(encoding="ascii").splitlines())
