"""The comparison of algorithms on one table."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pytest
from scipy.optimize import minimize

import crenel
from experiments import harness
from experiments.compare import ALGORITHMS, Data, _features, compare, measure, predict, read

DRAW = np.random.default_rng(0)
TABLE = pa.table({"age": DRAW.integers(0, 90, 500), "paid": DRAW.random(500).round(2)})
POLICY = crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 90)), "paid": crenel.Numeric((0, 1))})
SETTINGS = crenel.Settings(policy=POLICY, privacy=crenel.Privacy(k=5), algorithm=ALGORITHMS["nearest"](100))


def test_measures_are_those_of_the_published_records_of_each_seed() -> None:
    found = measure(Data("invented", TABLE, SETTINGS, 100), "nearest", 2)
    assert found.refused == ""
    assert len(set(found.loss)) == 2  # each seed holds out another fifth
    assert all(0.05 < loss < 0.4 for loss in found.loss)
    # Nearest without reuse publishes classes of k, and 400 records are four fifths of the table.
    assert found.class_size == (5, 5)
    expected = [5 * (1 - suppressed) + 400 * suppressed for suppressed in found.suppressed]
    assert found.discernibility == pytest.approx(expected)
    assert found.accuracy == ()  # there is no sensitive attribute
    assert 0 < found.success("re-identification at 1", "quasi-identifiers, exact order") <= 0.3
    assert found.success("re-identification at 1", "nothing") == 0
    assert all(20 < p50 < p99 <= 100 for p50, p99 in zip(found.delay_p50, found.delay_p99, strict=True))
    assert all(100 < rate < 1e7 for rate in found.rate)


def test_a_classifier_learns_from_published_records_and_is_tested_on_original_ones() -> None:
    of_age = pa.array(np.where(TABLE["age"].to_numpy() < 45, "young", "old"))
    policy = crenel.Policy(quasi_identifiers=POLICY.quasi_identifiers, sensitive=["group"])
    data = Data("invented", TABLE.append_column("group", of_age), replace(SETTINGS, policy=policy), 100)
    found = measure(data, "nearest", 2)
    assert all(0.85 < accuracy <= 1 for accuracy in found.accuracy)
    tables = [*compare(data, ["nearest"], 2)]
    assert re.search(r"\| original records \|( - \|){5} (9\d|100)\.\d ± \d+\.\d \|", str(tables[0]))


def test_features_are_the_middle_of_an_interval_and_the_share_of_each_leaf(tmp_path: Path) -> None:
    (tmp_path / "area.csv").write_text("a;north;*\nb;north;*\nc;south;*\n", encoding="utf-8")
    attributes = {"age": crenel.Numeric((0, 90)), "area": crenel.Categorical(tmp_path / "area.csv")}
    settings = replace(SETTINGS, policy=crenel.Policy(quasi_identifiers=attributes))
    published = pa.table({"age_min": [10, 20], "age_max": [30, 20], "area": ["north", "c"]})
    assert _features(published, settings).tolist() == [[20, 0.5, 0.5, 0], [20, 0, 0, 1]]
    assert _features(pa.table({"age": [10], "area": ["b"]}), settings).tolist() == [[10, 0, 1, 0]]


def test_tables_and_file_have_the_interval_of_each_measure(tmp_path: Path) -> None:
    harness.configure(None, tmp_path / "new")
    try:
        algorithms, attacks, _ = compare(Data("invented", TABLE, SETTINGS, 100), ["nearest"], 2)
    finally:
        harness.configure(None, None)
    assert re.search(r"\| nearest \| 0\.\d{3} ± 0\.\d{3} \| \d+\.\d\d ± \d+\.\d\d \| 5\.0 ± 0\.0 \|", str(algorithms))
    assert re.search(r"\| linking: quasi-identifiers \| \d+\.\d \(\d+\.\d to \d+\.\d\) \|", str(attacks))
    rows = pa.feather.read_table(tmp_path / "new" / "comparison-invented.arrow").to_pylist()
    assert [row["seed"] for row in rows if row["measure"] == "loss"] == [0, 1]
    assert {row["measure"] for row in rows} > {"suppressed", "class_size", "delay_p50", "rate", "query error"}
    (linking,) = (row for row in rows if row["measure"] == "linking: quasi-identifiers")
    assert linking["low"] <= linking["value"] <= linking["high"]


def test_a_prediction_is_that_of_a_logistic_regression() -> None:
    # Three classes by the sign and size of one feature; the second one is noise, and the third one constant.
    features = np.column_stack([DRAW.normal(size=3000), DRAW.normal(size=3000), np.full(3000, 7.0)])
    labels = np.array(["low", "middle", "high"])[np.digitize(features[:, 0], (-0.5, 0.5))]
    found = predict(features[:2000], labels[:2000], features[2000:])
    assert (found == labels[2000:]).mean() > 0.97
    assert set(predict(features[:9], np.full(9, "one"), features)) == {"one"}
    # Where both labels are equally likely for every value, the more common one is predicted.
    common = np.where(DRAW.random(3000) < 0.7, "common", "rare")
    assert set(predict(features, common, features)) == {"common"}


def test_the_penalty_of_a_prediction_is_half_the_squared_length_of_the_weights() -> None:
    # Few rows: the penalty moves the boundary between the labels. With two labels both have half of the weight.
    values, labels = np.array([0.0, 1, 2, 3, 12, 2.5]), np.array(["a", "a", "b", "b", "b", "a"])
    scaled, is_b = (values - values.mean()) / values.std(), labels == "b"

    def cost(line: np.ndarray, penalty: float) -> float:
        margin = np.where(is_b, 1, -1) * (line[0] * scaled + line[1])
        return float(np.log1p(np.exp(-margin)).sum() + penalty * line[0] ** 2 / 4)

    def boundary(penalty: float) -> float:
        weight, intercept = minimize(cost, [1.0, 0.0], penalty, method="Nelder-Mead", tol=1e-10).x
        return float(values.mean() - values.std() * intercept / weight)

    grid = np.linspace(0, 12, 12_001)
    found = grid[np.argmax(predict(values[:, None], labels, grid[:, None]) == "b")]
    assert found == pytest.approx(boundary(1.0), abs=0.01)
    assert abs(found - boundary(0.5)) > 0.05
    assert abs(found - boundary(2.0)) > 0.05


def test_an_algorithm_that_the_settings_exclude_is_refused_with_the_reason() -> None:
    assert "ola moves numbers by levels" in measure(Data("invented", TABLE, SETTINGS, 100), "ola", 1).refused


def test_a_file_is_read_with_the_settings_of_a_configuration(tmp_path: Path) -> None:
    pa.csv.write_csv(TABLE, tmp_path / "visits.csv")
    (tmp_path / "policy.yaml").write_text(SETTINGS.to_yaml(), encoding="utf-8")
    data = read(str(tmp_path / "visits.csv"), tmp_path / "policy.yaml", None)
    assert (data.name, len(data.table), data.delay) == ("visits", 500, 100)
    with pytest.raises(ValueError, match="give --settings"):
        read(str(tmp_path / "visits.csv"), None, None)
