"""The figure of the README agrees with the stream, and its releases with the privacy settings."""

from __future__ import annotations

import csv
from collections import defaultdict
from xml.etree import ElementTree

import pytest

from crenel.anonymity.model.hierarchy import Hierarchy, load
from crenel.jobs.cli import synthetic
from experiments.harness import ROOT
from experiments.stream_figure import CAPTION, ORIGINAL, PUBLISHED, ROWS, SEED, SHOWN, K

FIGURE = ROOT / "docs" / "figures" / "stream.svg"
_SPACE = "{http://www.w3.org/2000/svg}"


def rows_in(half: str) -> list[dict[str, str]]:
    """Return the rows of one half of the figure, from top to bottom, each with its letter on the left."""
    rows: dict[int, dict[str, str]] = defaultdict(dict)
    for group in ElementTree.parse(FIGURE).iter(f"{_SPACE}g"):
        side, _, rest = group.get("id", "").partition("-")
        if side == half:
            row, _, column = rest.partition("-")
            rows[int(row)][column] = "".join(group.itertext()).strip()
    return [rows[row] for row in sorted(rows)]


def ends(interval: str) -> tuple[int, int]:
    low, _, high = interval.replace(",", "").partition(" to ")
    return int(low), int(high or low)


def lies_under(tree: Hierarchy, leaf: str, label: str) -> bool:
    node = tree.labels.index(label)
    return bool(tree.first[node] <= tree.labels.index(leaf) <= tree.last[node])


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    path = tmp_path_factory.mktemp("stream") / "stream.csv"
    synthetic.write(path, ROWS, SEED)
    with path.open(encoding="utf-8", newline="") as file:
        return {row["line"]: row for row in csv.DictReader(file, fieldnames=synthetic.COLUMNS)}


def test_the_figure_shows_rows_of_the_stream_and_releases_that_satisfy_k_and_l(
    stream: dict[str, dict[str, str]],
) -> None:
    originals, published = rows_in("original"), rows_in("published")
    assert [int(row["line"]) for row in originals] == sorted(int(row["line"]) for row in originals)
    records = [stream[row["line"]] for row in originals]
    letters = [row.pop("letter") for row in originals]
    for row, record in zip(originals, records, strict=True):
        assert row == {name: f"{int(record[name]):,}" if name == "salary" else record[name] for name in ORIGINAL}
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in published:
        assert row.keys() == PUBLISHED.keys()
        alike[row["age"], row["area"], row["education"], row["salary"]].append(row["diagnosis"])
    assert len(alike) == SHOWN
    trees = {name: load(ROOT / "conf" / "hierarchies" / f"{name}.csv") for name in ("area", "education")}
    for letter, ((age, area, education, salary), diagnoses) in zip("ABCD", alike.items(), strict=True):
        members = [record for record, of in zip(records, letters, strict=True) if of == letter]
        assert sorted(record["diagnosis"] for record in members) == sorted(diagnoses)
        for record in members:
            assert ends(age)[0] <= int(record["age"]) <= ends(age)[1]
            assert ends(salary)[0] <= int(record["salary"]) <= ends(salary)[1]
            assert lies_under(trees["area"], record["area"], area)
            assert lies_under(trees["education"], record["education"], education)
        persons = {record["person"] for record in members}
        assert len(persons) >= K
        # l = 2: no diagnosis covers one record of each person.
        for diagnosis in set(diagnoses):
            assert {record["person"] for record in members if record["diagnosis"] == diagnosis} < persons


def test_the_figure_is_small_and_states_its_command() -> None:
    assert FIGURE.stat().st_size < 100_000
    assert CAPTION in " ".join("".join(ElementTree.parse(FIGURE).getroot().itertext()).split())
