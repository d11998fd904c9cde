"""A configuration's text: YAML without its surprises, overrides, variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crenel.anonymity.model.errors import ConfigError
from crenel.settings_file import expand, override, read


def written(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_bytes(text.encode())
    return path


def test_every_scalar_is_its_text_and_only_null_is_none(tmp_path: Path) -> None:
    text = (
        "a: [no, on, 1.10, 010, 1_0, 12:30, 2020-01-01, 1e3, =, 'null', !!str 5]\nb: [~, null, ]\n2019: \nyes: {l: 2}\n"
    )
    assert read(written(tmp_path, text)) == {
        "a": ["no", "on", "1.10", "010", "1_0", "12:30", "2020-01-01", "1e3", "=", "null", "5"],
        "b": [None, None],
        "2019": None,
        "yes": {"l": "2"},
    }


def test_anchors_and_merges_are_as_in_any_yaml(tmp_path: Path) -> None:
    text = "a: &it {x: 1, y: 2}\nb: *it\nc: {<<: *it, y: 3}\n"
    assert read(written(tmp_path, text)) == {
        "a": {"x": "1", "y": "2"},
        "b": {"x": "1", "y": "2"},
        "c": {"x": "1", "y": "3"},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "file: holds nothing"),
        ("# nothing\n", "file: holds nothing"),
        ("- a\n- b\n", "file: is not a mapping"),
        ("text", "file: is not a mapping"),
        ("policy:\n\tsubject: a\n", "file: line 2, column 1: a tab"),
        ("a: b: c\n", "file: line 1, column 5: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2\n", "file: line 2, column 1: an unknown alias, a repeated anchor, or a second document"),
        ("a: &x [*x]\n", "file: line 1, column 4: an unknown tag, or a structure inside itself"),
        ("a: !!python/name:os.system x\n", "file: line 1, column 4: an unknown tag"),
        ("a: !!int x\n", "file: line 1, column 4: an unknown tag"),
        ("? [a]\n: 1\n", "file: line 1, column 3: a key that is not text"),
        ("~: 1\n", "file: line 1, column 1: a key that is not text"),
        ("a: " + 2000 * "[", "file: line 1, column 103: more than 100 levels inside each other; close the brackets"),
        ("a: " + 2000 * "[" + 2000 * "]", "file: line 1, column 103: more than 100 levels"),
        ("a: " + 2000 * "{b: " + 2000 * "}", "file: line 1, column 397: more than 100 levels"),
        (
            "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 2000)),
            "file: line 99, column 12: more than 100 levels",
        ),
        ("a: \0\n", "file: holds a control character"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(written(tmp_path, text))
    (found,) = error.value.problems
    assert found.startswith(problem)


def test_levels_that_a_file_may_need_are_read(tmp_path: Path) -> None:
    content = read(written(tmp_path, "a: " + 90 * "[" + 90 * "]"))["a"]
    depth = 0
    while content:
        (content,), depth = content, depth + 1
    assert depth == 89
    assert read(written(tmp_path, "a: &a [1]\n" + "".join(f"b{i}: *a\n" for i in range(200))))["b199"] == ["1"]


def laughs(levels: int, first: str = "[x, x, x, x, x, x, x, x, x]") -> str:
    """Return a short text whose aliases stand for nine times as much with each level."""
    lines = [f"l0: &l0 {first}"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (laughs(5), "line 5, column 5"),
        (laughs(6), "line 5, column 5"),
        (laughs(90), "line 5, column 5"),
        (laughs(2, "x" * 200_000), "line 2, column 5"),
        (laughs(5).replace("[x, x, x, x, x, x, x, x, x]", "{x: y}").replace("[", "{<<: [").replace("]", "]}"), ""),
        ("a: &a {b: c}\n" + "\n".join(f"x{i}: *a" for i in range(5000)), "line 1, column 1"),
    ],
)
def test_aliases_that_stand_for_too_much_are_refused(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(ConfigError) as error:  # expanded, some of these would not end
        read(written(tmp_path, text))
    (found,) = error.value.problems
    assert found.startswith(f"file: {line}")
    assert found.endswith("aliases repeat more than 10,000 values; repeat less by '*'")


def test_merged_mappings_and_long_lists_are_read(tmp_path: Path) -> None:
    merged = "base: &base {a: 1, b: 2}\none: {<<: *base, b: 3}\ntwo: {<<: [*base, {c: 4}]}\n"
    text = merged + laughs(3) + "\nvalues: [" + "x, " * 30_000 + "x]\n"
    content = read(written(tmp_path, text))
    assert (content["one"], content["two"]) == ({"a": "1", "b": "3"}, {"a": "1", "b": "2", "c": "4"})
    assert len(content["values"]) == 30_001


def test_every_repeated_key_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read(written(tmp_path, "seed: 1\nflink: {a: 1, a: 2}\nseed: 2\n"))
    assert error.value.problems == (
        "line 3: the key 'seed' is given twice; keep one",
        "line 2: the key 'a' is given twice; keep one",
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml(.|\n)*cannot be read: No such file"):
        read(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes("b: 1\na: ü".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.yaml(.|\n)*file: line 2 is not UTF-8 text; save the file as UTF-8$"):
        read(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b-c=1", {"a": {"b": {"x": "0"}, "b.c": {"x": "0"}, "b-c": "1"}, "n": None}),
        ("a.b.x=1", {"a": {"b": {"x": "1"}, "b.c": {"x": "0"}}, "n": None}),
        ("a.b.c.x=1", {"a": {"b": {"x": "0"}, "b.c": {"x": "1"}}, "n": None}),
        ("a.b.c=[1, ~]", {"a": {"b": {"x": "0"}, "b.c": ["1", None]}, "n": None}),
        ("a=", {"a": None, "n": None}),
        ("n.m.o=x = y", {"a": {"b": {"x": "0"}, "b.c": {"x": "0"}}, "n": {"m": {"o": "x = y"}}}),
    ],
)
def test_an_override_takes_the_longest_key_there_is(text: str, expected: dict[str, Any]) -> None:
    content: dict[str, Any] = {"a": {"b": {"x": "0"}, "b.c": {"x": "0"}}, "n": None}
    assert override(content, [text]) == []
    assert content == expected


def test_an_override_leaves_what_shares_an_anchor_alone(tmp_path: Path) -> None:
    content = read(written(tmp_path, "a: &it {x: 1}\nb: *it\n"))
    assert override(content, ["b.x=2"]) == []
    assert content == {"a": {"x": "1"}, "b": {"x": "2"}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a", "--set: number 1 is not of the form dotted.key=value"),
        ("=3", "--set: number 1 is not of the form dotted.key=value"),
        ("a.b.x=3", "--set a.b.x: 'a.b' holds no further keys; set it as a whole"),
        ("c.0=3", "--set c.0: 'c' holds no further keys; set it as a whole"),
        ("d={a: 1, a: 2}", "--set d: line 1: the key 'a' is given twice; keep one"),
        ("d=[1", "--set d: the value is not YAML: line 1, column 3: expected ',' or ']', but got '<stream end>'"),
    ],
)
def test_an_override_that_cannot_be_made_is_a_problem(text: str, problem: str) -> None:
    assert override({"a": {"b": "1"}, "c": ["1"]}, [text]) == [problem]


def test_variables_are_replaced_in_every_string() -> None:
    variables = {"K": "4", "EMPTY": "", "BRACE": "${K}"}
    content = {"a": ["${K}0", None], "b": {"${K}": "${EMPTY:-x}|${EMPTY}|${UNSET:-}|$$|$${a}|^b$|${BRACE}"}}
    expected = {"a": ["40", None], "b": {"${K}": "x|||$|${a}|^b$|${K}"}}
    assert expand(content, variables) == (expected, {})


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_stands_for_its_text(tmp_path: Path, end: str) -> None:
    (tmp_path / "key").write_bytes(f"${{K}} key{end}".encode())
    assert expand({"a": f"<${{file:{tmp_path}/key}}>"}, {"K": "4"}) == ({"a": "<${K} key>"}, {})


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "cannot be read: No such file"), (b"\n", "is empty"), (b"\xff", "is not UTF-8")]
)
def test_a_file_without_a_text_is_named_by_its_field_and_not_by_its_path(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    _, problems = expand({"key": f"${{file:{tmp_path}/secret}}"}, {})
    assert problems["key"].startswith(f"the file of a ${{file:...}} {problem}")
    assert "secret" not in problems["key"]


def test_a_variable_that_is_not_set_is_named_by_its_field() -> None:
    _, problems = expand({"a": [{"b": "${UNSET}"}], "c": "${1}"}, {})
    assert problems["a[0].b"].startswith("the environment variable UNSET is not set; export it, or write ${UNSET:-")
    assert problems["c"].startswith("a '${' that names no variable; write ${NAME}")
