"""Hierarchies: the tree, its order, and files that are not one."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.hierarchy import MISSING, Hierarchy, HierarchyError, csv_text, from_paths, load

CITIES = [("Rome", "Italy", "Europe", "*"), ("Milan", "Italy", "Europe", "*"), ("Lima", "Peru", "*")]


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Paths of a random tree in random order of lines, with some levels left out or repeated."""
    parent = [0] * draw(st.integers(1, 25))
    for node in range(1, len(parent)):
        parent[node] = draw(st.integers(0, node - 1))
    paths = []
    for leaf in set(range(len(parent))) - set(parent[1:]):
        path = [leaf]
        while path[-1] != 0:
            path.append(parent[path[-1]])
        repeated = draw(st.integers(0, len(path) - 1))
        paths.append(tuple(f"n{node}" for node in path[: repeated + 1] + path[repeated:]))
    return draw(st.permutations(paths))


def ancestors(path: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(path))


@given(trees())
def test_every_leaf_keeps_its_way_to_the_root(paths: list[tuple[str, ...]]) -> None:
    tree = from_paths(paths)
    assert sorted(tree.labels[: tree.leaves]) == sorted(path[0] for path in paths)
    for path in paths:
        node, way = tree.labels.index(path[0]), [path[0]]
        while node != tree.root:
            node = int(tree.parent[node])
            way.append(tree.labels[node])
        assert way == ancestors(path)


@given(trees())
def test_the_leaves_below_a_node_are_neighbors_and_its_loss_counts_them(paths: list[tuple[str, ...]]) -> None:
    tree = from_paths(paths)
    for node, label in enumerate(tree.labels):
        below = {path[0] for path in paths if label in path}
        assert set(tree.labels[tree.first[node] : tree.last[node] + 1]) == below
        assert tree.loss[node] == (0.0 if len(paths) == 1 else (len(below) - 1) / (len(paths) - 1))


@given(trees(), st.randoms(use_true_random=False))
def test_the_lowest_common_ancestor_is_the_first_shared_label(
    paths: list[tuple[str, ...]], chosen: random.Random
) -> None:
    tree = from_paths(paths)
    left, right = chosen.choice(paths), chosen.choice(paths)
    node = tree.lowest_common_ancestor(tree.labels.index(left[0]), tree.labels.index(right[0]))
    assert tree.labels[node] == next(label for label in ancestors(left) if label in right)


def test_leaves_are_ordered_by_the_leftmost_traversal() -> None:
    # Definition 3.1: Italy comes first, so Milan stands before Lima though its line comes after.
    tree = from_paths([CITIES[0], CITIES[2], CITIES[1]])
    assert tree.labels == ("Rome", "Milan", "Lima", "Italy", "Europe", "Peru", "*")


@pytest.mark.parametrize("line", ["only", "only;*"])
def test_one_leaf_loses_nothing(tmp_path: Path, line: str) -> None:
    tree = load(written(tmp_path, line))
    assert tree.leaves == 1
    assert tree.labels[0] == "only"
    assert tree.loss.tolist() == [0.0] * len(tree.labels)


def test_ten_times_as_many_leaves_load_in_about_ten_times_as_long(tmp_path: Path) -> None:
    seconds = []
    for leaves in (2_000, 20_000):
        lines = [f"v{n};g{n // 10};h{n // 400};*" for n in range(leaves)]
        file = written(tmp_path, "\n".join(lines))
        taken = []
        for _ in range(4):  # the best of them is what it takes with nothing between
            started = time.process_time()
            tree = load(file)
            taken.append(time.process_time() - started)
        seconds.append(min(taken))
        assert tree.leaves == leaves
    assert seconds[1] < 50 * seconds[0]
    assert tree.labels[tree.lowest_common_ancestor(400, 799)] == "h1"


def test_a_label_may_hold_any_text(tmp_path: Path) -> None:
    labels = ["a, b", 'the "best"', "two\nlines", "Zürich 東京", "x;y", " spaced ", ""]
    lines = ["a, b;*", '"the ""best""";*', '"two\nlines";*', "Zürich 東京;*", '"x;y";*', " spaced ;*", ";*"]
    tree = load(written(tmp_path, "\n".join(lines)))
    assert list(tree.labels[: tree.leaves]) == labels


@pytest.mark.parametrize("text", ["a;*\r\nb;*\r\n", "\ufeffa;*\nb;*", "a;*\n\nb;*\n\n"])
def test_a_file_may_come_from_any_editor(tmp_path: Path, text: str) -> None:
    assert load(written(tmp_path, text)).labels == ("a", "b", "*")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no value"),
        ("\n\n", "holds no value"),
        ("a;*\nb;+", "two roots"),
        ("a,p,*\nb,p,*", "must end alike; between levels stands ';', and here it seems to be ','"),
        ("a\t*\nb\t*", r"here it seems to be '\t'"),
        ("a;*\nb;*\na;*", "line 3: the value 'a' is in line 1 already; remove one of the lines"),
        ('a;*\n\n"b\nc";*\n\na;*', "line 6: the value 'a' is in line 1 already"),
        ("a;p;*\nb;p;q;*", "'p' has two parents"),
        ("a;p;q;*\nb;q;p;*", "has two parents"),
        ("a;*;p;*", "the root '*' stands below"),
        ("a;b;*\n\nb;*", "line 3: 'b' is a value and a group"),
        ("*\na;*", "line 1: '*' is a value and a group"),
        ('"a;*\nb;*', "line 2: not CSV"),
        ('c;*\n"a"b;*', "line 2: not CSV with ';' between levels: ';' expected after '\"'; put a label with ';'"),
    ],
)
def test_a_file_that_is_no_tree_is_refused_by_its_name(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(HierarchyError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert problem in str(error.value)


def test_a_comma_within_a_label_is_taken_for_no_other_mark(tmp_path: Path) -> None:
    with pytest.raises(HierarchyError, match=r"every line must end alike$"):
        load(written(tmp_path, "a,b;*\nc,d;+"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(HierarchyError, match=r"none\.csv: cannot be read: No such file"):
        load(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("\ufeffBern;*\r\nBâle;*\r\n".encode() + "Zürich;*".encode("latin-1"))
    with pytest.raises(HierarchyError, match=r"latin\.csv: line 3 is not UTF-8 text; save the file as UTF-8$"):
        load(tmp_path / "latin.csv")


def test_missing_is_one_more_leaf_under_the_root() -> None:
    tree = from_paths(CITIES)
    kept = tree.with_missing()
    missing = kept.labels.index(MISSING)
    assert missing < kept.leaves == tree.leaves + 1
    assert kept.parent[missing] == kept.root
    assert paths_of(kept) - paths_of(tree) == {(MISSING, "*")}
    assert kept.labels[kept.lowest_common_ancestor(0, missing)] == "*"


def test_missing_needs_a_root_and_its_own_label() -> None:
    with pytest.raises(HierarchyError, match=r"no root above its value; write 'a;\*'"):
        from_paths([("a",)]).with_missing()
    with pytest.raises(HierarchyError, match="kept for missing values"):
        from_paths([(MISSING, "*")]).with_missing()


def written(folder: Path, text: str) -> Path:
    path = folder / "hierarchy.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_break_within_quotes_is_kept_as_it_is(tmp_path: Path, end: str) -> None:
    text = f'"first\r\nsecond";town;*{end}"first\nsecond";town;*{end}a;town;*{end}'
    (tmp_path / "places.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    tree = load(tmp_path / "places.csv")
    assert tree.labels[: tree.leaves] == ("first\r\nsecond", "first\nsecond", "a")


def paths_of(tree: Hierarchy) -> set[tuple[str, ...]]:
    paths = set()
    for leaf in range(tree.leaves):
        node, way = leaf, [tree.labels[leaf]]
        while node != tree.root:
            node = int(tree.parent[node])
            way.append(tree.labels[node])
        paths.add(tuple(way))
    return paths


def test_levels_are_those_of_the_lines() -> None:
    tree = from_paths([("a", "g", "g", "*"), ("b", "b", "h", "*"), ("c", "i", "h", "*")])
    assert [[tree.labels[node] for node in nodes] for nodes in tree.level_nodes()] == [
        ["a", "b", "c"],
        ["g", "b", "i"],
        ["g", "h", "h"],
        ["*", "*", "*"],
    ]


@pytest.mark.parametrize(
    "paths",
    [
        [("a", "g", "*"), ("b", "*")],
        # Of the nodes of the middle level, one would be above the other.
        [("a", "*", "*"), ("b", "g", "*")],
        [("a", "g", "g", "*"), ("b", "b", "g", "*")],
    ],
)
def test_where_levels_are_not_defined_nothing_is_made_up(paths: list[tuple[str, ...]]) -> None:
    tree = from_paths(paths)
    assert paths_of(tree) == {tuple(dict.fromkeys(path)) for path in paths}
    with pytest.raises(HierarchyError, match="has no levels; give every value as many labels"):
        tree.level_nodes()


LABEL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)


@given(paths=trees(), names=st.lists(LABEL, min_size=25, max_size=25, unique=True))
def test_a_written_file_is_read_as_the_same_tree(
    tmp_path_factory: pytest.TempPathFactory, paths: list[tuple[str, ...]], names: list[str]
) -> None:
    tree = from_paths([tuple(names[int(label[1:])] for label in path) for path in paths])
    path = written(tmp_path_factory.getbasetemp(), csv_text(tree.paths()))
    read = load(path)
    assert (read.labels, read.parent.tolist()) == (tree.labels, tree.parent.tolist())
