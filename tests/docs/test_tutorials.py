"""The tutorials run as they stand, and print what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.launch import ROOT, Host
from tests.support.tutorials import run

PAGES = ROOT / "docs" / "tutorials"
WITH_FLINK = ("first-stream", "your-own-csv", "pyflink", "report")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder that has the examples of the repository, as the folder of a reader has."""
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    return tmp_path


@pytest.mark.cluster("mini")
@pytest.mark.parametrize("page", WITH_FLINK)
def test_a_tutorial_runs_and_prints_what_it_shows(page: str, mini: Host, folder: Path) -> None:
    run(PAGES / f"{page}.md", folder, mini)


def test_the_tutorial_of_the_library_needs_no_flink(folder: Path) -> None:
    run(PAGES / "dataframe.md", folder)
