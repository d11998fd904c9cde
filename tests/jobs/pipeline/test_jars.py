"""Jars that a configuration names are added to those that Flink brings."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.pipeline.environment import jars

PYTHON = "file:/flink/opt/flink-python.jar"


def test_jars_are_added_to_what_is_there(tmp_path: Path) -> None:
    mine, other = tmp_path / "a b.jar", tmp_path / "other.jar"
    for path in (mine, other):
        ZipFile(path, "w").close()
    present = {"pipeline.jars": f"['{PYTHON}']", "pipeline.classpaths": "file:/flink/usrlib/"}
    named = f"{mine}; {other.as_uri()} ;{mine};s3://bucket/third.jar"
    assert jars({"pipeline.jars": named, "pipeline.name": "crenel"}, present) == {
        "pipeline.jars": f"{PYTHON};{mine.as_uri()};{other.as_uri()};s3://bucket/third.jar"
    }
    assert jars({"pipeline.classpaths": str(tmp_path)}, present) == {
        "pipeline.classpaths": f"file:/flink/usrlib/;{tmp_path.as_uri()}"
    }
    assert jars({"pipeline.jars": f"[{mine}]"}, {}) == {"pipeline.jars": mine.as_uri()}
    assert jars({}, present) == {}


def test_a_jar_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        jars({"pipeline.jars": f"{tmp_path}/none.jar;{tmp_path}", "pipeline.classpaths": "file:/none/"}, {})
    assert [problem.split(" is not there")[0] for problem in error.value.problems] == [
        f"flink.pipeline.jars: {tmp_path}/none.jar",
        f"flink.pipeline.jars: {tmp_path}",
        "flink.pipeline.classpaths: file:/none/",
    ]


def test_a_file_that_is_not_a_jar_is_named(tmp_path: Path) -> None:
    page, cut = tmp_path / "page.jar", tmp_path / "cut.jar"
    page.write_text("<html>Not found</html>", encoding="utf-8")
    with ZipFile(cut, "w") as file:
        file.writestr("a", "b" * 99)
    cut.write_bytes(cut.read_bytes()[:-30])
    with pytest.raises(ConfigError) as error:
        jars({"pipeline.jars": f"{page};{cut.as_uri()}", "pipeline.classpaths": str(page)}, {})
    assert [problem.split(", as it is no ZIP archive; name the .jar file")[0] for problem in error.value.problems] == [
        f"flink.pipeline.jars: {page} is not a jar",
        f"flink.pipeline.jars: {cut.as_uri()} is not a jar",
        f"flink.pipeline.classpaths: {page} is not a jar",
    ]
