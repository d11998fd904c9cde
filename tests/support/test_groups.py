"""Tests that share a cluster run in one process, and the others are not held up by them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.groups import Groups, group_of, order
from tests.support.launch import ROOT


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ('pytestmark = pytest.mark.cluster("mini")', "mini"),
        ('pytestmark = [\n    pytest.mark.cluster("standalone"),\n]', "standalone"),
        ("@pytest.mark.cluster\ndef test_it(): ...", "FILE"),
        ("def test_it(cluster): ...", None),
    ],
)
def test_the_marker_of_a_file_tells_its_group(tmp_path: Path, text: str, group: str | None) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text, encoding="utf-8")
    assert group_of(file) == (str(file) if group == "FILE" else group)


def test_who_uses_the_standalone_cluster_is_in_its_group() -> None:
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if "cluster: Cluster" in file.read_text("utf-8")]
    assert len(files) > 2
    groups = {group_of(file) for file in files if file != Path(__file__)}
    assert {(group or "").partition("_")[0] for group in groups} == {"standalone"}


def test_groups_stay_whole_and_other_tests_go_one_by_one() -> None:
    scheduler = Groups.__new__(Groups)
    scheduler.config, scheduler._of_file = SimpleNamespace(rootpath=ROOT), {}
    kafka, cluster = "tests/jobs/test_kafka.py", "tests/jobs/test_cluster.py"
    assert scheduler._split_scope(f"{kafka}::test_a[1]") == scheduler._split_scope(f"{cluster}::test_b")
    compiling = "tests/experiments/test_nearest.py"
    assert (ROOT / compiling).is_file()
    assert scheduler._split_scope(f"{compiling}::test_a") == scheduler._split_scope(f"{compiling}::test_b")
    plain = "tests/test_boundaries.py"
    assert scheduler._split_scope(f"{plain}::test_a") != scheduler._split_scope(f"{plain}::test_b")


def test_what_takes_longest_begins_first() -> None:
    names = ("test_boundaries.py", "test_site.py", "jobs/test_job.py", "jobs/test_recovery.py")
    items = [SimpleNamespace(path=ROOT / "tests" / name) for name in names]
    assert sorted(items, key=order()) == items[::-1]
