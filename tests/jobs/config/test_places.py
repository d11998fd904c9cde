"""Files and folders of this machine that a configuration names."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.config.places import cautions_of_leftovers, cautions_of_places, local_path, without_scheme


def files(folder: Path) -> dict[str, str]:
    return {"connector": "filesystem", "path": str(folder), "format": "csv"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/in.csv", "/data/in.csv"),
        ("data/50%25.csv", "data/50%25.csv"),
        ("file:/data/in.csv", "/data/in.csv"),
        ("file:///data/a%20b.csv", "/data/a b.csv"),
        ("s3://bucket/in.csv", None),
        ("hdfs:///in.csv", None),
    ],
)
def test_a_path_of_this_machine_is_told_from_others(text: str, path: str | None) -> None:
    assert local_path(text) == (None if path is None else Path(path))


def test_a_source_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    there = {"source.ddl": files(tmp_path), "source.forget.ddl": files(tmp_path / "none.csv")}
    (warning,) = cautions_of_places(there, {})
    assert warning.startswith(f"source.forget.ddl: 'path' = '{tmp_path}/none.csv' is not there")
    assert list(cautions_of_places({"source.ddl": {"connector": "datagen"}}, {})) == []


def test_a_folder_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    sinks = {"released": files(tmp_path / "new" / "released"), "audit": files(tmp_path / "taken" / "audit")}
    (warning,) = cautions_of_places({}, sinks)
    assert warning == (f"sinks.audit.path: {tmp_path}/taken/audit cannot be written: {tmp_path}/taken is no folder")


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ("released/part-0", True),
        ("released/day=1/part-0", True),
        ("released/.part-0.inprogress", False),
        ("released/_SUCCESS", False),
        ("released/.staging/part-0", False),
        ("summary/part-0", False),
    ],
)
def test_files_of_an_earlier_run_are_told_of(tmp_path: Path, left: str, told: bool) -> None:
    file = tmp_path / left
    file.parent.mkdir(parents=True)
    file.write_text("", encoding="utf-8")
    sinks = {name: files(tmp_path / name) for name in ("summary", "audit", "released")}
    warnings = list(cautions_of_leftovers(sinks))
    assert [warning.split(". ")[0] for warning in warnings] == ["sinks.released.path: there are files already"] * told


def test_a_folder_for_state_needs_a_scheme() -> None:
    given = {"execution.checkpointing.dir": "/shared/checkpoints", "state.savepoints.dir": "savepoints"}
    problems = list(without_scheme(given | {"state.checkpoints.dir": "file:/shared", "io.tmp.dirs": "/tmp"}))
    assert [problem.split(":")[0] for problem in problems] == [f"flink.{name}" for name in given]
    assert all("file:///shared/checkpoints" in problem for problem in problems)
