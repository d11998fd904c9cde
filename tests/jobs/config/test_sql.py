"""Variables in SQL: no value becomes code."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.load import load
from crenel.jobs.config.sql import FIELDS, Statement
from crenel.settings_file import expand
from tests.jobs.config.test_load import SMALL

NASTY = ("A'B", "''", "'; DROP", "a\nb", "\\", "\\'", "--", "/*", "*/", "a`b", '"', "", "${X}", "$$", "東京")
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=9)


def filled(text: str, field: str = "source.query", **variables: str) -> str:
    """Return the result of a statement."""
    content: object = text
    for key in reversed(field.split(".")):
        content = {key: content}
    expanded, problems = expand(content, variables, statements=FIELDS, statement=Statement)
    assert problems == {}
    for key in field.split("."):
        expanded = expanded[key]
    return str(expanded)


def refused(text: str, **variables: str) -> str:
    _, problems = expand({"source": {"ddl": text}}, variables, statements=FIELDS, statement=Statement)
    assert list(problems) == ["source.ddl"]
    return problems["source.ddl"]


def nasty(test: object) -> object:
    for value in NASTY:
        test = example(value)(test)  # type: ignore[arg-type]
    return test


@nasty
@given(VALUES)
def test_a_value_in_a_literal_is_the_value_of_the_literal(value: str) -> None:
    # SQLite is another's reading of the same SQL.
    text = "SELECT '${V}', 'it''s ${V}''', '${V}${V}' -- '${V}\n, /* ' ${V} */ 'b' AS `c${V}`, '-- ${V} /*'"
    connection = sqlite3.connect(":memory:")
    found = connection.execute(filled(text, V=value))
    assert found.fetchone() == (value, f"it's {value}'", value + value, "b", f"-- {value} /*")
    assert found.description[3][0] == f"c{value}"
    connection.close()


@pytest.mark.parametrize("field", FIELDS)
def test_every_statement_is_escaped_and_nothing_else_is(field: str) -> None:
    assert filled("'${V}'", field, V="A'B") == "'A''B'"
    for other in ("subject_key", "sinks.released.path", "source.ddl_of", "flink.a"):
        assert filled("'${V}'", other, V="A'B") == "'A'B'"


@pytest.mark.parametrize("value", ["n", "12", "1.5", "db.table_1", ""])
def test_a_name_or_a_number_may_stand_anywhere(value: str) -> None:
    assert filled("SELECT ${V} FROM t", V=value) == f"SELECT {value} FROM t"


@pytest.mark.parametrize("value", ["A'B", "1 OR 1", "a-b", "-1", "a\nb", "--", "a;b", "`x`", "É"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT ${V}",
        "SELECT 'a' ${V} 'b'",
        "SELECT 'a''b' ${V}",
        "SELECT `a` ${V}",
        "SELECT /* ' */ ${V}",
        "SELECT /*/ ' */ ${V}",
        "SELECT /**/ ${V}",
        "SELECT -- '\n ${V}",
        "SELECT // '\n ${V}",
        "SELECT /*+ OPTIONS('a' = ${V}) */ *",
        "SELECT /*+ O('a') */* ${V}",
        "SELECT E'a${V}'",
        "SELECT E'\\'' || ${V}",
        "SELECT E'a''${V}'",
        "SELECT U&'${V}'",
        "SELECT ${V:-a-b}",
    ],
)
def test_another_value_outside_of_a_literal_is_refused_and_not_told(text: str, value: str) -> None:
    problem = refused(text, V=value)
    assert problem.startswith("the value of V is neither a name nor a number, and stands outside of a string literal; ")
    assert "'${V}' in quotes, or ${V!raw}" in problem
    assert len(value) < 3 or value not in problem


def test_a_literal_after_a_keyword_and_in_a_hint_is_one() -> None:
    assert filled("SELECT DATE'${V}' /*+ O('k' = '${V}') */", V="'") == "SELECT DATE'''' /*+ O('k' = '''') */"


def test_sql_is_inserted_where_the_variable_is_declared_to_hold_it() -> None:
    condition = "a > 'x' AND 'b"
    assert filled("SELECT * FROM t WHERE ${C!raw}${V}'", C=condition, V="o'o") == (
        "SELECT * FROM t WHERE a > 'x' AND 'bo''o'"
    )
    assert filled("SELECT ${C!raw:-1 + 1}") == "SELECT 1 + 1"
    assert expand({"a": "${C!raw}"}, {"C": "x"}, statements=FIELDS, statement=Statement)[1] == {
        "a": f"'!raw' is for SQL ({', '.join(FIELDS)}); write ${{C}} here"
    }


def test_a_comment_stays_as_it_is_and_needs_no_variable() -> None:
    text = "SELECT 1 -- ${UNSET} it's\n/* ${PASSWORD} '*/ , '${V}'"
    assert filled(text, PASSWORD="*/ x", V="a'b") == text.replace("${V}", "a''b")


def test_defaults_and_dollars_are_as_elsewhere() -> None:
    assert filled("'${U:-it's}' $${V} '$$'") == "'it''s' ${V} '$'"
    assert refused("'${V}'") == "the environment variable V is not set; export it, or write ${V:-default}"
    assert "names no variable" in refused("'${9}'")


def test_the_text_of_a_file_is_escaped_and_refused_as_a_value_of_a_variable_is(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("A'B\n", encoding="utf-8")
    assert filled(f"'${{file:{secret}}}'") == "'A''B'"
    problem = refused(f"SELECT ${{file:{secret}}}")
    assert problem.startswith("the value of a file is neither a name nor a number, and stands outside of a string")
    assert "A'B" not in problem


def test_statements_with_variables_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRENEL_TEST_PASSWORD", "A'B")
    path = tmp_path / "job.yaml"
    path.write_text(SMALL, encoding="utf-8")
    ddl = "source.ddl=\"CREATE TEMPORARY TABLE source (age INT) WITH ('p' = '${CRENEL_TEST_PASSWORD}')\""
    source = load(path, [ddl, "source.query=SELECT age FROM source"]).source
    assert source.varied == {"source.ddl"}
    assert source.ddl.endswith("('p' = 'A''B')")
    with pytest.raises(ConfigError) as caught:
        load(path, ["source.query='SELECT ${CRENEL_TEST_PASSWORD} FROM source'"])
    (problem,) = caught.value.problems
    assert problem.startswith("source.query: the value of CRENEL_TEST_PASSWORD is neither a name nor a number")
    assert "A'B" not in problem
