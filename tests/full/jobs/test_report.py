"""The page at the end of a run, which knows what came in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.launch import Host
from tests.support.visits import ROWS, TOWNS, visits, write
from tests.support.web_page import Page

pytestmark = pytest.mark.flink


@pytest.fixture(scope="module")
def job(mini: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a configuration whose run has ended, with ``run.html`` beside it."""
    path = write(tmp_path_factory.mktemp("report") / "job", visits())
    ended = mini.crenel("run", path, "--report", path.parent / "run.html", mode="loopback")
    assert ended.returncode == 0, ended.stderr
    assert "\nreport " in ended.stdout
    return path


def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def numbers(found: Page, table: str, column: int) -> list[int]:
    return [int(row[column].replace(",", "")) for row in found.tables[table][1]]


def test_a_run_shows_input_and_output(job: Path) -> None:
    found = page(job.parent / "run.html")
    assert found.problems == []
    went = dict(
        zip([row[0] for row in found.tables["Rows by outcome"][1]], numbers(found, "Rows by outcome", 1), strict=True)
    )
    assert went["total"] == ROWS
    rejected = sum(rows for what, rows in went.items() if what.startswith("rejected"))
    for name in ("age", "town", "wage"):
        assert sum(numbers(found, name, 1)) == ROWS - rejected
        assert abs(sum(numbers(found, name, 3)) - went["published, generalized"]) < len(found.tables[name][1])
        assert min(numbers(found, name, 1)) >= 5
    assert sum(numbers(found, "Rows by their delay", 1)) == ROWS - rejected


def test_nothing_raw_of_the_source_is_on_the_page(job: Path) -> None:
    text = page(job.parent / "run.html").text
    assert not [town for town in TOWNS if town in text]
    assert "Secret" not in text
    persons = {row["person"] for row in visits() if row["person"]} - {"p50", "p99"}  # which are also percentiles
    assert not persons & set(text.split())
    assert not [row for row in visits() if f"{row['ms']}" in text]


def test_the_input_can_be_read_later(job: Path, mini: Host) -> None:
    for option, columns in (["--input"], 5), ([], 3):
        ended = mini.crenel("report", job, "--output", job.parent / "later.html", *option, mode="loopback")
        assert ended.returncode == 0, ended.stderr
        later = page(job.parent / "later.html")
        assert later.problems == []
        assert {len(later.tables[name][0]) for name in ("age", "town", "wage")} == {columns}
    once = page(job.parent / "run.html")
    assert later.tables["Rows by outcome"] == once.tables["Rows by outcome"]
