"""The report page of a result within a process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import crenel
from tests.crenel.stream import records, settings


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
