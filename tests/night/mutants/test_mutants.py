"""The rules that make mutants, and the choice of mutants and tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.night.mutants.__main__ import lost
from tests.night.mutants.rules import BRANCH, COMPARISON, CONSTANT, OFF_BY_ONE, STATEMENT, SWAP, Mutant, mutants_of
from tests.night.mutants.selection import QUOTAS, ImportGraph, choose, plan
from tests.support.launch import ROOT


def variants(source: str) -> set[tuple[str, str]]:
    """Return the rule and the changed line of each mutant."""
    text, lines = source.encode(), source.splitlines()
    found = set()
    for mutant in mutants_of("module.py", text):
        changed = mutant.applied(text).decode().splitlines()
        assert lines[mutant.line - 1].strip() == mutant.text
        assert changed[: mutant.line - 1] == lines[: mutant.line - 1]
        found.add((mutant.rule, changed[mutant.line - 1].strip()))
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a == b", {(COMPARISON, "a != b")}),
        ("(a) not in (b)", {(COMPARISON, "(a) in (b)")}),
        ("é < b", {(COMPARISON, "é >= b"), (OFF_BY_ONE, "é <= b")}),
        ("x = a[1:]", {(OFF_BY_ONE, "x = a[2:]")}),
        ("x = a[-1]", {(OFF_BY_ONE, "x = a[-2]")}),
        ("x = range(2)", {(OFF_BY_ONE, "x = range(3)")}),
        ("x = range(n - 1)", {(OFF_BY_ONE, "x = range(n - 2)")}),
        ("x = b if a else c", {(BRANCH, "x = b if False else c")}),
        ("x = 0", {(CONSTANT, "x = 1")}),
        ("x = 0.5", {(CONSTANT, "x = 1.0")}),
        ("x = False", {(CONSTANT, "x = True")}),
        ("x = 'name'", {(CONSTANT, "x = 'name_'")}),
        ("a += b", {(STATEMENT, "pass")}),
        ("a.b = c", {(STATEMENT, "pass")}),
        ("f(a, b)", {(STATEMENT, "pass"), (SWAP, "f(b, a)")}),
        ("x = f(a,  b.c,  d.e)", {(SWAP, "x = f(a,  d.e,  b.c)")}),
    ],
)
def test_a_rule_changes_one_place(line: str, expected: set[tuple[str, str]]) -> None:
    assert variants(f"def f():\n    {line}\n") == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""',
        "x: Annotated[int, Field(ge=1)]",
        "raise ValueError('name', 1)",
        "log.warning('name', 1)",
        "x = f'{a + 1}'",
        "x = 'words for readers'",
        "x = max(a, b)",
        "x = zip(a, strict=True)",
        "if TYPE_CHECKING:\n    import a",
        "x = cast('int', a)",
        "@f(1)\ndef g(x: A[0] = a) -> B[1]: ...",
    ],
)
def test_texts_annotations_and_what_changes_nothing_are_left_alone(source: str) -> None:
    assert variants(source) == set()


def test_a_compiled_function_is_told_by_its_decorator() -> None:
    source = b"@jit.leaf\ndef f(shard, a, b):\n    g(shard, a, b)\ndef h(a, b):\n    g(a, b)\n"
    found = {
        (mutant.compiled, mutant.function, mutant.new) for mutant in mutants_of("a.py", source) if mutant.rule == SWAP
    }
    assert found == {(True, "f", "b, a"), (False, "h", "b, a")}


def test_a_key_stays_where_lines_are_added_and_tells_equal_lines_apart() -> None:
    before = mutants_of("a.py", b"x = 1\nx = 1\n")
    after = mutants_of("a.py", b"import y\n\nx = 1\nx = 1\n")
    assert [mutant.key for mutant in before] == [mutant.key for mutant in after]
    assert len({mutant.key for mutant in before}) == 2


def test_each_folder_with_a_quota_is_there() -> None:
    assert all((ROOT / folder).is_dir() for folder, _ in QUOTAS)


def test_the_choice_depends_on_the_seed_and_stays_where_lines_move(tmp_path: Path) -> None:
    file = tmp_path / "state" / "a.py"
    file.parent.mkdir()
    functions = "".join(f"def f{number}(x):\n    return x + {number}\n" for number in range(50))
    file.write_text(functions, encoding="utf-8")
    before = {mutant.key for mutant in choose(tmp_path, 0)}
    assert before != {mutant.key for mutant in choose(tmp_path, 1)}
    file.write_text('"""Functions."""\n\n' + functions, encoding="utf-8")
    assert before == {mutant.key for mutant in choose(tmp_path, 0)}
    assert len(before) == QUOTAS["state", False]


def test_the_nearest_tests_come_first_as_far_as_time_goes() -> None:
    mutant = Mutant("anonymity/algorithms/castle/gamma.py", "", BRANCH, 0, 1, "", True, 0, 0, "")
    tests = {
        "tests/anonymity/algorithms/castle/test_b.py": 3,
        "tests/state/test_a.py": 1,
        "tests/anonymity/algorithms/castle/test_gamma.py": 5,
    }
    seconds = {
        "tests/state/test_a.py::slow": 9.0,
        "tests/state/test_a.py::quick": 1.0,
        "tests/anonymity/algorithms/castle/test_b.py::b": 2.0,
        "tests/anonymity/algorithms/castle/test_gamma.py::g": 2.0,
        "tests/jobs/test_other.py::o": 1.0,
    }
    gamma, b, quick = (
        "tests/anonymity/algorithms/castle/test_gamma.py::g",
        "tests/anonymity/algorithms/castle/test_b.py::b",
        "tests/state/test_a.py::quick",
    )
    assert plan(mutant, tests, seconds, 6.0) == [gamma, b, quick]
    assert plan(mutant, tests, seconds, 6.0, [quick, "tests/test_gone.py::g"]) == [quick, gamma, b]


def test_a_test_reaches_what_it_imports_directly_or_not(tmp_path: Path) -> None:
    for file, text in {
        "state/a.py": "",
        "anonymity/b.py": "from crenel.state import a",
        "anonymity/c.py": "import crenel.state.a",
        "tests/test_b.py": "from crenel.anonymity.b import x",
        "tests/test_c.py": "extensions = ['crenel.anonymity.c']",
        "tests/test_d.py": "import crenel.anonymity",
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert ImportGraph(tmp_path).tests_of("state/a.py") == {"tests/test_b.py": 2, "tests/test_c.py": 2}


def test_a_mutant_that_survives_now_and_was_killed_before_is_lost() -> None:
    before = {"a": {"outcome": "killed"}, "b": {"outcome": "survived"}, "c": {"outcome": "timeout"}}
    now = {
        "a": {"outcome": "survived"},
        "b": {"outcome": "survived"},
        "c": {"outcome": "survived"},
        "d": {"outcome": "survived"},
    }
    assert lost(now, before) == ["a", "c"]
