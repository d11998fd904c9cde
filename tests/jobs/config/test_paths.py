"""Files and folders of this machine that a configuration names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.jobs.config.flink_settings import without_scheme
from crenel.jobs.config.paths import file_uri, find_missing_inputs, local_path
from crenel.jobs.config.source import parse_options
from crenel.jobs.config.start_warnings import leftover_warnings

TEXTS = st.text(st.sampled_from("ab'-/*`= \n()ü"), max_size=8)
BETWEEN = st.sampled_from(["", " ", "\n", "/* 'a' = 'b' */", "-- 'a' = 'b'\n", "\n-- it's\n"])


def files(folder: Path | str) -> dict[str, str]:
    return {"connector": "filesystem", "path": str(folder), "format": "csv"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/in.csv", "/data/in.csv"),
        ("data/50%25.csv", "data/50%25.csv"),
        ("file:/data/in.csv", "/data/in.csv"),
        ("file://localhost/data/in.csv", "/data/in.csv"),
        ("file:///data/a%20b#1?.csv", "/data/a%20b#1?.csv"),
        ("data/12:30.csv", "data/12:30.csv"),
        ("s3://bucket/in.csv", None),
        ("hdfs:///in.csv", None),
    ],
)
def test_a_path_of_this_machine_is_told_from_others(text: str, path: str | None) -> None:
    assert local_path(text) == (None if path is None else Path(path))


@pytest.mark.parametrize("name", ["in.csv", "a b", "a%20b", "ß#1?"])
def test_a_uri_names_the_path_that_it_was_made_of(name: str) -> None:
    assert local_path(file_uri(Path("/data") / name)) == Path("/data") / name
    assert file_uri(Path(name)) == f"file://{Path.cwd()}/{name}"


def test_a_local_job_cannot_read_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a%20b").mkdir()
    for options in (
        files(tmp_path),
        files(f"file://{tmp_path}"),
        files(f"file://{tmp_path}/a%20b"),
        files("s3://bucket/none"),
        {"connector": "kafka", "path": "/none"},
    ):
        assert list(find_missing_inputs({"source.ddl": options})) == []
    assert [*find_missing_inputs({"source.ddl": files(f"file://{tmp_path}/%61%20b")})]
    (problem,) = find_missing_inputs({"source.ddl": files(tmp_path), "source.forget.ddl": files(tmp_path / "none")})
    assert problem.startswith(f"source.forget.ddl: 'path' = '{tmp_path}/none' is not there; give the path of a file")


@pytest.mark.parametrize(
    ("left", "is_warned"),
    [
        ("released/part-0", True),
        ("released/day=1/part-0", True),
        ("released/.part-0.inprogress", False),
        ("released/_SUCCESS", False),
        ("released/.staging/part-0", False),
        ("summary/part-0", False),
    ],
)
def test_files_of_an_earlier_run_are_told_of(tmp_path: Path, left: str, is_warned: bool) -> None:
    file = tmp_path / left
    file.parent.mkdir(parents=True)
    file.write_text("", encoding="utf-8")
    sinks = {name: files(tmp_path / name) for name in ("summary", "audit", "released")}
    warnings = list(leftover_warnings(sinks))
    assert [warning.split(". ")[0] for warning in warnings] == [
        "sinks.released.path: there are files already"
    ] * is_warned


def test_a_folder_for_state_needs_a_scheme() -> None:
    given = {"execution.checkpointing.dir": "/shared/checkpoints", "state.savepoints.dir": "savepoints"}
    problems = list(without_scheme(given | {"state.checkpoints.dir": "file:/shared", "io.tmp.dirs": "/tmp"}))
    assert [problem.split(":")[0] for problem in problems] == [f"flink.{name}" for name in given]
    assert all("file:///shared/checkpoints" in problem for problem in problems)


@given(st.dictionaries(TEXTS, TEXTS), BETWEEN, BETWEEN)
def test_options_are_told_from_the_text_of_a_statement(options: dict[str, str], before: str, after: str) -> None:
    # Comments and quotes may hold whatever an option looks like.
    quoted = (
        [f"'{text}'" for text in (name.replace("'", "''"), value.replace("'", "''"))] for name, value in options.items()
    )
    listed = ", ".join(f"{before}{name}{after}={before}{value}{after}" for name, value in quoted)
    ddl = f"CREATE TEMPORARY TABLE source (`it's` INT, `path` AS 'path' || 'x') {before} WITH ({listed})"
    assert parse_options(ddl) == options
