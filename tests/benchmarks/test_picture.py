"""The picture of the README tells what the stream holds, and what every release promises."""

from __future__ import annotations

import csv
from collections import defaultdict
from xml.etree import ElementTree

import pytest

from benchmarks.picture import PICTURE, ROOT, ROWS, SEED, SHOWN, UNDER, K
from benchmarks.picture_svg import CAME, LEFT, Release, svg
from crenel.anonymity.model.hierarchy import Hierarchy, load
from crenel.jobs.cli import synthetic

_SPACE = "{http://www.w3.org/2000/svg}"
_LETTERS = "ABCDEFGH"


def rows_in(text: str, columns: dict[str, int]) -> list[dict[str, str]]:
    """The rows of one half of a picture, from top to bottom, each with the letter at its height."""
    texts = [
        (float(e.attrib["x"]), float(e.attrib["y"]), e.text or "")
        for e in ElementTree.fromstring(text).iter(f"{_SPACE}text")
    ]
    place = {x: name for name, x in columns.items()}
    rows: dict[float, dict[str, str]] = defaultdict(dict)
    for x, y, found in texts:
        if x in place:
            rows[y][place[x]] = found
    # The heading is a row of the names themselves.
    return [row for _, row in sorted(rows.items()) if row.keys() == columns.keys() and row["age"] != "age"]


def ends(interval: str) -> tuple[int, int]:
    least, _, most = interval.replace(",", "").partition(" to ")
    return int(least), int(most or least)


def lies_under(tree: Hierarchy, leaf: str, label: str) -> bool:
    node = tree.labels.index(label)
    return bool(tree.first[node] <= tree.labels.index(leaf) <= tree.last[node])


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    path = tmp_path_factory.mktemp("stream") / "stream.csv"
    synthetic.write(path, ROWS, SEED)
    with path.open(encoding="utf-8", newline="") as file:
        return {row["line"]: row for row in csv.DictReader(file, fieldnames=synthetic.COLUMNS)}


def test_the_picture_shows_rows_of_the_stream_and_releases_that_keep_the_promise(
    stream: dict[str, dict[str, str]],
) -> None:
    text = PICTURE.read_text(encoding="utf-8")
    came, left = rows_in(text, CAME), rows_in(text, LEFT)
    assert [int(row["line"]) for row in came] == sorted(int(row["line"]) for row in came)
    visits = [stream[row["line"]] for row in came]
    for row, visit in zip(came, visits, strict=True):
        assert row == {name: f"{int(visit[name]):,}" if name == "salary" else visit[name] for name in CAME}
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in left:
        alike[row["age"], row["area"], row["education"], row["salary"]].append(row["diagnosis"])
    assert len(alike) == SHOWN
    letters = [e.text for e in ElementTree.fromstring(text).iter(f"{_SPACE}text") if e.text in [*_LETTERS]]
    trees = {name: load(ROOT / "conf" / "hierarchies" / f"{name}.csv") for name in ("area", "education")}
    for letter, ((age, area, education, salary), diagnoses) in zip(_LETTERS, alike.items(), strict=False):
        # The letters of the releases come first, then one for each row on the left.
        members = [visit for visit, of in zip(visits, letters[SHOWN:], strict=True) if of == letter]
        assert sorted(visit["diagnosis"] for visit in members) == sorted(diagnoses)
        for visit in members:
            assert ends(age)[0] <= int(visit["age"]) <= ends(age)[1]
            assert ends(salary)[0] <= int(visit["salary"]) <= ends(salary)[1]
            assert lies_under(trees["area"], visit["area"], area)
            assert lies_under(trees["education"], visit["education"], education)
        people = {visit["person"] for visit in members}
        assert len(people) >= K
        # l = 2: no one diagnosis is enough to name one of each person.
        for diagnosis in set(diagnoses):
            assert {visit["person"] for visit in members if visit["diagnosis"] == diagnosis} < people


def test_the_picture_is_small_and_says_how_it_is_drawn() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text.encode()) < 60_000
    assert UNDER in "".join(ElementTree.fromstring(text).itertext())


def test_what_a_value_holds_is_text_and_not_markup() -> None:
    visit = dict.fromkeys(synthetic.COLUMNS, "1") | {"name": "<b>", "diagnosis": "a & b"}
    published = dict.fromkeys(("age_min", "age_max", "salary_min", "salary_max"), "1") | {
        "area": "<",
        "education": ">",
    }
    drawn = svg([Release(1, published, (visit,))], "under")
    assert rows_in(drawn, CAME)[0]["name"] == "<b>"
    assert rows_in(drawn, LEFT)[0] == {"age": "1", "area": "<", "education": ">", "salary": "1", "diagnosis": "a & b"}
