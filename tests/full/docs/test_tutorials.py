"""Blocks of the tutorials and of README.md run as they stand, and print the output that the page shows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.launch import ROOT, Host
from tests.support.tutorials import blocks, outputs, run

PAGES = ROOT / "docs" / "tutorials"
WITH_FLINK = ("first-stream", "your-own-csv", "pyflink", "report")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder that has the examples of the repository, as the folder of a reader has."""
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    return tmp_path


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """Yield a process for the commands of the pages: later tests with the session's own saw what these leave behind."""
    made = Host()
    yield made
    made.stop()


@pytest.mark.flink
@pytest.mark.parametrize("page", WITH_FLINK)
def test_a_tutorial_runs_and_prints_what_it_shows(page: str, host: Host, folder: Path) -> None:
    run(PAGES / f"{page}.md", folder, host)


def test_the_tutorial_of_the_library_needs_no_flink(folder: Path) -> None:
    run(PAGES / "dataframe.md", folder)


def test_the_ten_lines_of_the_readme_run(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = (f"p{draw.randrange(300)},{draw.randrange(90)},{draw.choice(['flu', 'asthma', 'cold'])}" for _ in range(900))
    (tmp_path / "visits.csv").write_text("\n".join(["patient,age,diagnosis", *rows]), encoding="utf-8")
    (lines,) = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    assert lines.count("\n") == 10
    (printed,) = outputs([lines], tmp_path)
    assert printed.endswith("holds\n")
    assert "89 cluster 89" in printed
