"""The comparison of algorithms on one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import crenel
from experiments.compare import ALGORITHMS, Data, measure, read

DRAW = np.random.default_rng(0)
TABLE = pa.table({"age": DRAW.integers(0, 90, 500), "paid": DRAW.random(500).round(2)})
POLICY = crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 90)), "paid": crenel.Numeric((0, 1))})
SETTINGS = crenel.Settings(policy=POLICY, privacy=crenel.Privacy(k=5), algorithm=ALGORITHMS["nearest"](100))


def test_measures_are_those_of_the_published_records() -> None:
    found = measure(Data("invented", TABLE, SETTINGS, 100), "nearest", 1)
    assert found.refused == ""
    assert found.loss is not None
    assert 0.05 < found.loss < 0.4
    # Nearest without reuse publishes classes of k, and 400 records are four fifths of the table.
    assert found.class_size == 5
    assert found.suppressed is not None
    assert found.discernibility == pytest.approx(5 * (1 - found.suppressed) + 400 * found.suppressed)
    assert found.accuracy is None  # there is no sensitive attribute
    assert dict(found.attacks)["re-identification at 1: quasi-identifiers, exact order"] <= 0.3


def test_an_algorithm_that_the_settings_exclude_is_refused_with_the_reason() -> None:
    assert "ola moves numbers by levels" in measure(Data("invented", TABLE, SETTINGS, 100), "ola", 1).refused


def test_a_file_is_read_with_the_settings_of_a_configuration(tmp_path: Path) -> None:
    pa.csv.write_csv(TABLE, tmp_path / "visits.csv")
    (tmp_path / "policy.yaml").write_text(SETTINGS.to_yaml(), encoding="utf-8")
    data = read(str(tmp_path / "visits.csv"), tmp_path / "policy.yaml", None)
    assert (data.name, len(data.table), data.delay) == ("visits", 500, 100)
    with pytest.raises(ValueError, match="give --settings"):
        read(str(tmp_path / "visits.csv"), None, None)
