"""The report page of a result within a process."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

import crenel
from tests.crenel.stream import records, settings


def test_a_page_shows_the_flow_the_input_and_attacks(tmp_path: Path) -> None:
    of, table, path = settings(shards=2), records(), tmp_path / "report.html"
    result = crenel.anonymize(table.to_pandas(), of)
    attacks = crenel.attack(table, of, seeds=1, targets=50)
    page = crenel.report(result, of, path, data=table, attacks=[attacks], name="visits")
    assert path.read_text(encoding="utf-8") == page
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    summary = result.summary
    assert f"Of {summary.read:,} input rows, {summary.released:,} (" in page
    assert "half of the rows waited for " in page
    assert "re-identification at 1" in page
    assert "Apache Flink" not in page
    assert "requests to forget" not in page
    assert f">{attacks.attacks[0].knows}<" in page
    for person in table["person"].to_pylist():
        assert f">{person}<" not in page
    without = crenel.report(result, of)
    assert (">input</text>" in page, ">input</text>" in without) == (True, False)


def test_suppressed_records_that_are_published_are_no_part_of_the_released_ones() -> None:
    of = replace(settings("castle"), algorithm=crenel.Castle(crenel.Delay(tuples=5), suppression="generalize"))
    result = crenel.anonymize(records(), of)
    generalized = result.summary.releases["generalized"]
    assert generalized > 0
    assert f"{generalized:,} more were suppressed, and published fully generalized" in crenel.report(result, of)


def test_a_part_of_a_stream_is_told_by_a_warning() -> None:
    of = settings()
    result = crenel.anonymize(records(), of)
    page = crenel.report(replace(result, released=result.released.slice(1)), of)
    assert f"result.released: holds {result.released.num_rows - 1:,} rows" in page


def test_other_data_and_a_file_that_cannot_be_are_refused(tmp_path: Path) -> None:
    of = settings()
    result = crenel.anonymize(records(), of)
    with pytest.raises(ValueError, match=r"data: has 190 valid records, and the result is of 380; give its data"):
        crenel.report(result, of, data=records(200))
    with pytest.raises(crenel.ReportError, match="its folder does not exist"):
        crenel.report(result, of, tmp_path / "nowhere" / "report.html")
    with pytest.raises(ValueError, match=r"result\.released: lacks the column"):
        crenel.report(replace(result, released=result.released.drop(["age_min"])), of)
