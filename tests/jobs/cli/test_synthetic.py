"""The demo's stream is what its configuration says, and repeats itself."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from crenel.anonymity.model.hierarchy import load
from crenel.jobs.cli.synthetic import COLUMNS, write

HIERARCHIES = Path(__file__).parents[3] / "conf" / "hierarchies"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, fieldnames=COLUMNS))


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    path = tmp_path_factory.mktemp("synthetic") / "stream.csv"
    write(path, 20_000, 7)
    return read(path)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write(tmp_path / name, 1000, seed)
    first, again, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == again
    assert first != other


@pytest.mark.parametrize("rows", [0, 1, 1001])
def test_as_many_rows_come_as_were_asked_for(tmp_path: Path, rows: int) -> None:
    write(tmp_path / "stream.csv", rows)
    assert [row["line"] for row in read(tmp_path / "stream.csv")] == [str(n) for n in range(1, rows + 1)]


@pytest.mark.parametrize("column", ["area", "education"])
def test_categories_are_leaves_of_the_demos_hierarchies(stream: list[dict[str, str]], column: str) -> None:
    tree = load(HIERARCHIES / f"{column}.csv")
    assert {row[column] for row in stream} - {"ZZ9", ""} == set(tree.labels[: tree.leaves])


def test_people_come_again_as_themselves(stream: list[dict[str, str]]) -> None:
    seen = defaultdict(set)
    for row in stream:
        if is_good(row):
            seen[row["person"]].add((row["name"], row["age"], row["area"], row["education"], row["salary"]))
    assert {len(found) for found in seen.values()} == {1}
    assert 2_000 < len(seen) < 4_000


def test_a_few_rows_are_bad_in_each_of_the_ways_that_are_rejected(stream: list[dict[str, str]]) -> None:
    bad = [row for row in stream if not is_good(row)]
    assert 0.001 < len(bad) / len(stream) < 0.01
    for column, value in (("age", ""), ("age", "170"), ("area", "ZZ9"), ("education", ""), ("salary", "n/a")):
        assert any(row[column] == value for row in bad)


def test_visits_are_a_little_out_of_order(stream: list[dict[str, str]]) -> None:
    latest, late = 0, []
    for row in stream:
        visited = int(row["visited_ms"])
        late.append(max(latest - visited, 0))
        latest = max(latest, visited)
    assert sum(1 for wait in late if wait > 0) > len(stream) / 10
    assert sum(1 for wait in late if wait > 600_000) < len(stream) / 1000


def test_diagnoses_are_skewed_and_salaries_rise_with_education(stream: list[dict[str, str]]) -> None:
    counts = Counter(row["diagnosis"] for row in stream).most_common()
    assert counts[0][1] > 20 * counts[-1][1]
    paid = defaultdict(list)
    for row in filter(is_good, stream):
        paid[row["education"]].append(int(row["salary"]))
    assert mean(paid["no certificate"]) < mean(paid["apprenticeship"]) < mean(paid["doctorate"])


def is_good(row: dict[str, str]) -> bool:
    return "" not in row.values() and row["age"] != "170" and row["area"] != "ZZ9" and row["salary"] != "n/a"


def mean(numbers: list[int]) -> float:
    return sum(numbers) / len(numbers)
