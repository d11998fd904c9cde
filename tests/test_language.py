"""Language of the tree: names, sentences and docstrings use the terms of docs/reference/glossary.md.

Ruff checks the imperative mood of functions (D401), codespell the spelling. The glossary is the one list of refused
words. A failure lists file, line, word and the term to use instead.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = (
    "anonymity",
    "benchmarks",
    "crenel",
    "docker",
    "docs/_ext",
    "evidence",
    "examples",
    "experiments",
    "jobs",
    "operators",
    "state",
    "tests",
)
PRODUCT = ("anonymity", "crenel", "evidence", "jobs", "operators", "state")
PAGES = ("README.md", "SECURITY.md", "docker/README.md", "docs/**/*.md", "conf/*.yaml")

ALLOWED = {
    ("evidence/attack/*", "promised"): "a key of crenel attack --json",
    ("docs/reference/glossary.md", "*"): "the list itself",
    ("tests/test_language.py", "*"): "its own examples",
}
"""Uses that stay, by file and word, with the reason."""

ASSEMBLED = {("_WithModels", name) for name in ("alpha", "t", "entropy_l", "beta", "recursive")}
"""Documented fields of registered privacy models."""

_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"(?:^ *|  )# (.*)$")
_SECTION = re.compile(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w.*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"``.*?``|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)
_SEGMENT = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_SUBJECT_CLAUSE = re.compile(r"(?:^|[.!:|#>*-] )\s*(What|Who|Whoever)\b(?! Crenel\?)[^.?!|]*(?:[.!|]|$)")
_NO_VERB = re.compile(
    r"(What|Who|Whose|How|Which|Where|When|Whether|Its|Each|Every|All|One|Two|Of|As|With|That|Those|No)\b"
)
_NO_NOUN = re.compile(r"(What|Who|Whoever|Whose|How|Which|Where|When|Why|If|To|It|There|The same|As)\b")

_OF_A_JOB = re.compile(r"\bsource\.(ddl|query|table|forget)\b")
"""Matches fields that only a job has."""

_REWRITING = {"replace", "removeprefix", "removesuffix", "translate", "sub", "map"}
_MESSAGES = {"problem", "problems", "message", "warning", "error"}
_UNCHECKED = {
    "jobs/failure.py": "masks values of records in the errors of Flink",
    "jobs/cli/cli_common.py": "indents the lines of a problem",
}
"""Modules that may change a message, with the reason."""

SEEN_BY_PROGRAMS = (
    *("anonymity/*", "operators/*", "evidence/*", "crenel/*"),
    *("jobs/pipeline/anonymizer.py", "jobs/pipeline/event_time.py", "jobs/pipeline/layout.py"),
)
"""Modules whose messages are also read by users of the library or of ``crenel.flink``, who have no file."""


@cache
def glossary() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the refused names and the refused phrases of the glossary, each with the term to use instead."""
    names, phrases = {}, {}
    for line in (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "term" and set(cells[0]) != {"-"}:
            for word in filter(None, map(str.strip, cells[3].split(","))):
                (names if word.startswith("`") else phrases)[word.strip("`")] = cells[0]
    return names, phrases


@cache
def refused_phrases() -> re.Pattern[str]:
    """Return the pattern of all refused phrases."""
    return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, glossary()[1]))})(?![\w-])", re.IGNORECASE)


@cache
def refused_name(name: str) -> str | None:
    """Return the refused word that a name contains, or None."""
    plain = name.strip("_")
    parts = f"_{'_'.join(_SEGMENT.findall(plain)).lower()}_"
    return next((w for w in glossary()[0] if (plain == w if w != w.lower() else f"_{w}_" in parts)), None)


def refused_phrase(text: str) -> str | None:
    """Return the refused phrase or the clause in place of a subject in a text, or None."""
    if match := refused_phrases().search(text):
        return match[1].lower()
    return match[1] if (match := _SUBJECT_CLAUSE.search(text)) else None


def defined_names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and name of all classes, functions, arguments, attributes and variables; not those of tests."""
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("test_"):
                yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def texts(path: str, source: str, nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and text of all docstrings and comments, and of the messages of the product."""
    documented = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            if id(node) in documented or not path.startswith("tests/"):
                yield from ((node.lineno, part) for part in _CODE.sub("x", node.value).split("\n\n"))
    for number, line in enumerate(source.splitlines(), 1):
        if match := _COMMENT.search(line):
            yield number, match[1]


@cache
def modules() -> Mapping[str, tuple[str, list[ast.AST]]]:
    """Return source and syntax nodes of each Python file by its path."""
    gc.disable()  # it would read all nodes again and again, and find nothing
    files = {path: path.read_text(encoding="utf-8") for folder in CODE for path in (ROOT / folder).rglob("*.py")}
    found = {str(path.relative_to(ROOT)): (text, [*ast.walk(ast.parse(text))]) for path, text in sorted(files.items())}
    gc.enable()
    gc.freeze()
    return found


def is_allowed(path: str, word: str) -> bool:
    return any(fnmatch(path, where) and fnmatch(word, what) for where, what in ALLOWED)


def report(found: Iterator[tuple[str, int, str, str]]) -> None:
    """Fail with one line per use that is not allowed."""
    lines = [f"{path}:{line}: {text}" for path, line, word, text in found if not is_allowed(path, word)]
    assert not lines, "\n".join([f"{len(lines)} uses that docs/reference/glossary.md refuses", *lines])


def names_in(path: str, nodes: list[ast.AST]) -> Iterator[tuple[str, int, str, str]]:
    """Yield the refused names of a module, each once."""
    names, seen = glossary()[0], set[str]()
    module = Path(path).stem
    stems = [] if module.startswith("test_") else [(1, module), (1, module.title().replace("_", ""))]
    for line, name in (*stems, *sorted(defined_names(nodes))):
        if (word := refused_name(name)) is not None and name not in seen:
            seen.add(name)
            yield path, line, word, f"the name {name} contains {word!r}; use the term {names[word]!r}"


def phrases_in(path: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, int, str, str]]:
    """Yield the refused phrases of some texts."""
    for line, text in lines:
        if (phrase := refused_phrase(" ".join(text.split()))) is not None:
            proposed = glossary()[1].get(phrase, "a noun as the subject")
            yield path, line, phrase, f"the text contains {phrase!r}; use {proposed!r}: {' '.join(text.split())[:90]}"


def openings_in(path: str, nodes: list[ast.AST]) -> Iterator[tuple[str, int, str, str]]:
    """Yield the docstrings of modules and classes that begin with no noun, and those of functions with no verb."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef):
            pattern, form = _NO_NOUN, "a noun phrase"
        elif isinstance(node, ast.FunctionDef) and not any(
            "property" in ast.dump(name) for name in node.decorator_list
        ):
            pattern, form = _NO_VERB, "an imperative verb"
        else:
            continue
        text = ast.get_docstring(node) or ""
        if match := pattern.match(text):
            yield (
                path,
                node.body[0].lineno,
                match[1],
                f"begins with {match[1]!r}; use {form}: {text.splitlines()[0][:90]}",
            )


def documented(node: ast.AST) -> Iterator[str]:
    """Yield the parameters and attributes that a docstring names."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        for section in _SECTION.findall(ast.get_docstring(node) or ""):
            for names in re.findall(r"^(\S[^:\n]*?) : ", section, re.MULTILINE):
                yield from (name.strip("* ") for name in names.split(","))


def existing(node: ast.AST, classes: Mapping[str, list[ast.ClassDef]]) -> set[str]:
    """Return the parameters of a function, or of a class; a class also has its fields and those of its bases."""
    if isinstance(node, ast.FunctionDef):
        return {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    names = set[str]()
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign) and each in getattr(node, "body", ()):
            names.add(ast.unparse(each.target))
        elif isinstance(each, ast.Assign) and each in getattr(node, "body", ()):
            names |= {target.id for target in each.targets if isinstance(target, ast.Name)}
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self":
            names.add(each.attr)
        elif isinstance(each, ast.FunctionDef):
            names |= {each.name, *(existing(each, classes) if each.name == "__init__" else ())}
    for base in getattr(node, "bases", ()):
        for parent in classes.get(ast.unparse(base).rpartition(".")[2], ()):
            names |= set() if parent is node else existing(parent, classes)
    return names


def unknown_names(path: str, nodes: list[ast.AST], classes: Mapping[str, list[ast.ClassDef]]) -> Iterator[str]:
    """Yield the documented parameters and attributes that do not exist."""
    for node in nodes:
        for name in sorted({*documented(node)} - existing(node, classes)):
            if (getattr(node, "name", ""), name) not in ASSEMBLED:
                yield f"{path}:{node.lineno}: {node.name} documents {name}, which it lacks"  # type: ignore[attr-defined]


def test_docstrings_name_parameters_and_fields_that_exist() -> None:
    classes: dict[str, list[ast.ClassDef]] = {}
    for _, nodes in modules().values():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)
    lines = [line for path, (_, nodes) in modules().items() for line in unknown_names(path, nodes, classes)]
    assert not lines, "\n".join(lines)


def test_a_class_name_stands_once() -> None:
    homes: dict[str, list[str]] = {}
    for path, (_, nodes) in modules().items():
        if path.split("/")[0] in PRODUCT:
            for node in nodes:
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    repeated = [" ".join([name, *paths]) for name, paths in sorted(homes.items()) if len(paths) > 1]
    assert not repeated, "\n".join(repeated)


def test_names_use_the_terms_of_the_glossary() -> None:
    report(found for path, (_, nodes) in modules().items() for found in names_in(path, nodes))


def test_docstrings_comments_and_messages_use_the_terms_of_the_glossary() -> None:
    report(found for path, (text, nodes) in modules().items() for found in phrases_in(path, texts(path, text, nodes)))


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    report(found for path, (_, nodes) in modules().items() for found in openings_in(path, nodes))


def fields_of_a_job(path: str, nodes: list[ast.AST]) -> Iterator[str]:
    """Yield each text with a blank, but for docstrings, that names a field that only a job has."""
    documented = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            if " " in node.value and _OF_A_JOB.search(node.value):
                yield f"{path}:{node.lineno}: {node.value}"


def rewritten_messages(path: str, nodes: list[ast.AST]) -> Iterator[str]:
    """Yield each call that makes another text of a message."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        of = node.func
        if (of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else "") in _REWRITING:
            parts = [each for part in (of, *node.args) for each in ast.walk(part)]
            names = {each.id for each in parts if isinstance(each, ast.Name)}
            names |= {each.attr for each in parts if isinstance(each, ast.Attribute)}
            if names & _MESSAGES:
                yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def test_messages_that_programs_see_name_no_field_of_a_job() -> None:
    paths = [path for path in modules() if any(fnmatch(path, pattern) for pattern in SEEN_BY_PROGRAMS)]
    assert len(paths) > 100
    assert [found for path in paths for found in fields_of_a_job(path, modules()[path][1])] == []


def test_no_module_rewrites_a_message() -> None:
    paths = [path for path in modules() if path.startswith(PRODUCT) and path not in _UNCHECKED]
    assert [found for path in paths for found in rewritten_messages(path, modules()[path][1])] == []


@pytest.mark.parametrize(
    "source",
    [
        'problem.replace("source.query", "the data")',
        "error.problems[0].removeprefix(place)",
        "str(error).replace(place, other)",
        'ConfigError("data", map(in_data, error.problems))',
        "re.sub(place, other, message)",
        'yield "CAST it in source.query"',
        'f"{name}: rename it in source.ddl"',
    ],
)
def test_a_rewritten_message_and_a_field_of_a_job_are_found(source: str) -> None:
    nodes = [*ast.walk(ast.parse(source))]
    assert len([*rewritten_messages("a", nodes), *fields_of_a_job("a", nodes)]) == 1


def paragraphs(page: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the paragraphs, rows and items of a page without code, or of the comments of a file."""
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text(encoding="utf-8"))
    if page.suffix == ".yaml":
        text = re.sub(r"^[^#\n]*(#|$)", "#", text, flags=re.MULTILINE)
    line = 1
    for part in re.split(r"\n(?=\s*\n|[|#]|\s*[-*] |\s*\d+\. )", text):
        yield line, _CODE.sub("x", part.strip())
        line += 1 + part.count("\n")


def test_pages_use_the_terms_of_the_glossary() -> None:
    pages = [page for pattern in PAGES for page in sorted(ROOT.glob(pattern)) if "_build" not in page.parts]
    report(found for page in pages for found in phrases_in(str(page.relative_to(ROOT)), paragraphs(page)))


def test_the_glossary_has_one_term_for_one_concept() -> None:
    names, phrases = glossary()
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| ([^|-][^|]*?) \|", text, re.MULTILINE)
    terms = [term for term in terms if term != "term"]
    assert 40 <= len(terms) == len(set(terms)) <= 60
    assert names.keys().isdisjoint(phrases.keys() - names.keys())
    assert not {word for word in phrases for term in terms if word == term}


@pytest.mark.parametrize(
    "source",
    ["def told(): pass", "x_told = 1", "self.toldApart = 1", "class Left: pass", '"""What left."""', "x = 1  # seam\n"],
)
def test_a_refused_word_is_found(source: str) -> None:
    nodes = [*ast.walk(ast.parse(source))]
    found = [*names_in("jobs/x.py", nodes), *phrases_in("jobs/x.py", texts("jobs/x.py", source, nodes))]
    assert len(found) == 1


def test_a_documented_field_that_does_not_exist_is_found() -> None:
    source = '"""A.\n\n    Attributes\n    ----------\n    b, c : numbers\n    """'
    nodes = [*ast.walk(ast.parse(f"class A:\n    {source}\n\n    b: int"))]
    assert [*unknown_names("jobs/x.py", nodes, {})] == ["jobs/x.py:1: A documents c, which it lacks"]
