"""The report page of a result within a process."""

from __future__ import annotations

import stat
from pathlib import Path

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
