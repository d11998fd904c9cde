"""``crenel hierarchy``: a hierarchy as a file, wherever it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.model.hierarchy import load as load_hierarchy
from crenel.jobs.config.load import load
from tests.jobs.cli.test_app import crenel

BIRTH = "birth: {type: categorical, hierarchy: {dates: {domain: [2024-02-29, 2024-03-01], levels: [day, year]}}}"
AREA = "area: {type: categorical, hierarchy: area.csv}"
FILE = 'AL1;"of; all";any\nAL2;any\n'


def configuration(folder: Path, *attributes: str) -> Path:
    (folder / "area.csv").write_text(FILE)
    path = folder / "job.yaml"
    path.write_text(
        f"policy: {{quasi_identifiers: {{{', '.join(attributes)}}}}}\n"
        "privacy: {k: 3}\ncastle: {delay: {tuples: 5}}\nsource: {ddl: CREATE TEMPORARY TABLE source}\n"
        "sinks: {released: {connector: blackhole}}\n"
    )
    return path


def test_the_only_hierarchy_is_written_to_standard_output(tmp_path: Path) -> None:
    result = crenel("hierarchy", configuration(tmp_path, BIRTH))
    assert (result.exit_code, result.stdout) == (0, "2024-02-29;2024;*\n2024-03-01;2024;*\n")


def test_of_several_the_one_that_is_named_is_written(tmp_path: Path) -> None:
    path = configuration(tmp_path, BIRTH, AREA)
    assert crenel("hierarchy", path, "area").stdout == FILE
    unnamed, unknown = crenel("hierarchy", path), crenel("hierarchy", path, "zip")
    assert (unnamed.exit_code, unnamed.stdout) == (unknown.exit_code, unknown.stdout) == (2, "")
    assert "has several hierarchies; name a column: birth, area" in unnamed.stderr
    assert "has no hierarchy of the column 'zip'; it has birth, area" in unknown.stderr
    none = crenel("hierarchy", configuration(tmp_path, "age: {type: numeric}"))
    assert none.exit_code == 2
    assert "has no categorical quasi-identifier" in none.stderr


@pytest.mark.parametrize("missing", ["reject", "value"])
def test_a_written_hierarchy_may_take_the_place_of_the_built_one(tmp_path: Path, missing: str) -> None:
    path, kept = configuration(tmp_path, BIRTH), ["--set", f"policy.missing={missing}"]
    result = crenel("hierarchy", path, "--output", tmp_path / "birth.csv", *kept)
    assert (result.exit_code, result.stdout) == (0, "")
    assert load_hierarchy(tmp_path / "birth.csv").leaves == 2
    built, read = (
        load(path, [*kept[1:], *override]).policy.categorical[0].hierarchy
        for override in ((), ("policy.quasi_identifiers.birth.hierarchy=birth.csv",))
    )
    assert (built.labels, built.parent.tolist()) == (read.labels, read.parent.tolist())


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    result = crenel("hierarchy", configuration(tmp_path, BIRTH), "--output", tmp_path / "none" / "birth.csv")
    assert result.exit_code == 1
    assert "cannot be written: No such file" in result.stderr
