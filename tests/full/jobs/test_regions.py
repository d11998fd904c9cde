"""Regions are learned from a source and divide a job's stream, from the command line to the sinks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crenel.jobs.config.load import load
from tests.support.launch import Host
from tests.support.regions import leaves, walk
from tests.support.visits import AUDIT, REJECTED, RELEASED, ROWS, SUPPRESSED, WRONG, Run, visits, write

pytestmark = pytest.mark.flink

TREE = """
tree:
  cut: age
  below: 94
  left: {shard: 0, share: 0.1, loss: 0.5}
  right: {shard: 1, share: 0.9, loss: 0.5}
"""
ADMITTED = ROWS * (100 - len(WRONG)) // 100


def divided(count: int) -> tuple[str, ...]:
    return ("--set", f"shards={{count: {count}, by: regions, regions: regions.yaml}}")


@pytest.fixture(scope="module")
def run(mini: Host, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = write(tmp_path_factory.mktemp("regions") / "job", visits())
    # The configuration may name the file already that is to be written.
    learned = mini.crenel("regions", path, "--count", "5", "--write", path.parent / "regions.yaml", *divided(5))
    assert learned.returncode == 0, learned.stderr
    assert f"{ADMITTED:,} tuples were read, and {ROWS - ADMITTED:,} rows rejected, all of the source" in learned.stdout
    ended = mini.crenel("run", path, "--parallelism", "2", "--json", *divided(5))
    assert ended.returncode == 0, ended.stderr
    return Run(path.parent, ended)


def test_what_leaves_a_shard_lies_within_its_region_and_each_gets_the_share_that_was_expected(run: Run) -> None:
    others = len(run.sink("rejected", REJECTED)) + len(run.sink("suppressed", SUPPRESSED))
    assert len({row["id"] for row in run.sink("released", RELEASED)}) + others == ROWS
    assert run.summary["warnings"] == []
    config = load(run.folder / "job.yaml", [divided(5)[1]])
    tree = config.shards.regions
    assert tree is not None
    (town,) = config.policy.categorical
    regions = leaves(tree.root)
    audit = run.sink("audit", AUDIT)
    assert {row["shard"] for row in audit} == set("01234")
    for row in audit:
        node = town.hierarchy.labels.index(row["town"])
        for end, leaf in (("min", town.hierarchy.first[node]), ("max", town.hierarchy.last[node])):
            corner = [float(row[f"age_{end}"]), float(row[f"wage_{end}"]), float(leaf)]
            assert regions.index(walk(tree.root, corner)) == int(row["shard"])
    summary = run.sink("summary", ("shard", "name", "amount"))
    came = {int(row["shard"]): float(row["amount"]) for row in summary if row["name"] == "tuples_in"}
    shares = {shard: round(tuples / ADMITTED, 6) for shard, tuples in came.items()}
    assert shares == dict(enumerate(tree.share.tolist()))  # all of the source was the sample


def test_a_stream_unlike_what_its_regions_expect_is_warned_of(run: Run, mini: Host) -> None:
    learned = (run.folder / "regions.yaml").read_text(encoding="utf-8")
    path = write(run.folder / "unlike", visits()[:400])
    (path.parent / "regions.yaml").write_text(learned[: learned.index("tree:")] + TREE, encoding="utf-8")
    ended = mini.crenel("run", path, "--json", *divided(2))
    assert ended.returncode == 0, ended.stderr
    (warning,) = [found for found in json.loads(ended.stdout)["warnings"] if found.startswith("shards.regions")]
    assert "shard 0 got 9." in warning


def test_of_a_stream_the_first_tuples_are_read(mini: Host, tmp_path: Path) -> None:
    path = write(tmp_path / "job", visits())
    endless = path.read_text(encoding="utf-8").replace("'format'", "'source.monitor-interval' = '1 s', 'format'")
    path.write_text(endless, encoding="utf-8")
    learned = mini.crenel("regions", path, "--count", "3", "--sample", "150", "--write", tmp_path / "regions.yaml")
    assert learned.returncode == 0, learned.stderr
    assert "the first of an unbounded source; 150 of them are the sample" in learned.stdout
    assert "from 150 tuples" in (tmp_path / "regions.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            visits()[:1],
            "in their quasi-identifiers in 1 ways, so no more than 1 regions are possible",
        ),
        ([visits()[0]] * 20, "20 tuples were read, which differ in their quasi-identifiers in 1 ways"),
        ([], "no tuple was read, and 0 rows were rejected, so no region is possible"),
        ([row | {"age": ""} for row in visits()[:5]], "no tuple was read, and 5 rows were rejected"),
    ],
)
def test_a_source_that_holds_too_little_is_told_with_what_is_possible(
    mini: Host, tmp_path: Path, rows: list[dict[str, object]], message: str
) -> None:
    path = write(tmp_path / "job", rows)
    ended = mini.crenel("regions", path, "--count", "2", "--write", tmp_path / "regions.yaml")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert message in ended.stderr
    assert not (tmp_path / "regions.yaml").exists()


def test_noise_refuses_regions(mini: Host, tmp_path: Path) -> None:
    noise = "sampling_and_noise={sample_rate: 0.8, phi: 50, range: observed}"
    path = write(tmp_path / "job", [])
    ended = mini.crenel("regions", path, "--count", "2", "--write", tmp_path / "regions.yaml", "--set", noise)
    assert ended.returncode == 2
    assert "sampling_and_noise: refuses regions" in ended.stderr
