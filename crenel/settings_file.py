"""Raw configuration: YAML text, ``--set`` overrides, environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import yaml
from pydantic import BaseModel, ConfigDict

from crenel.anonymity.model.errors import ConfigError, not_utf8
from crenel.anonymity.model.explain import dotted

_NULL_TAG = "tag:yaml.org,2002:null"
_DEEPEST = 100
_TOO_DEEP = f"more than {_DEEPEST} levels inside each other; close the brackets, no field needs so many"
_REPEATED = 10_000
"""Maximum number of values that aliases repeat beyond the written ones; each is traversed several times."""
_TOO_MANY = f"aliases repeat more than {_REPEATED:,} values; repeat less by '*'"
_NOT_TEXT = "a key that is not text; put it in quotes"
_REFERENCE = re.compile(
    r"\$\$|\$\{file:(?P<file>[^}]+)\}|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<raw>!raw)?(?P<fallback>:-[^}]*)?\}|\$\{"
)


class FileSection(BaseModel):
    """A mapping of a file in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)


def read(path: Path | str) -> dict[str, Any]:
    """Read a YAML mapping; every scalar is its text as written, or None.

    The schema decides which texts are numbers. So a column may have the name ``no``, ``2019`` or ``1e3``, and connector
    options keep their spelling.

    Raises
    ------
    ConfigError
        The file cannot be read, is not YAML, repeats a key, or is not a mapping.
    """
    try:
        content, repeated = read_yaml(path)
    except ValueError as error:
        raise ConfigError(path, [f"file: {error}"]) from None
    if content is None:
        raise ConfigError(
            path, ["file: holds nothing; it must hold at least policy, privacy, an algorithm, source, sinks"]
        )
    if not isinstance(content, dict):
        raise ConfigError(path, ["file: is not a mapping; it must begin with keys such as 'policy:'"])
    if repeated:
        raise ConfigError(path, repeated)
    return content


def read_yaml(path: Path | str) -> tuple[Any, list[str]]:
    """Return the content of a YAML file, with scalars as ``read`` has them, and the problems of its keys.

    Raises
    ------
    ValueError
        The file cannot be read, or is not YAML.
    """
    try:
        return _parse(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}; give the path of a YAML file") from None
    except UnicodeDecodeError as error:
        raise ValueError(not_utf8(error)) from None
    except yaml.YAMLError as error:
        raise ValueError(_syntax(error)) from None


def override(content: dict[str, Any], overrides: Sequence[str]) -> list[str]:
    """Set fields of ``content`` in place, each from ``dotted.key=value`` with the value in YAML; return problems.

    Keys are split at dots; where the mapping holds a key that contains dots, the longest such key applies.
    """
    problems = []
    for number, text in enumerate(overrides, 1):
        name, equals, value = text.partition("=")
        name = name.strip()
        if not (name and equals):
            problems.append(f"--set: number {number} is not of the form dotted.key=value")
            continue
        try:
            parsed, repeated = _parse(value)
        except yaml.YAMLError as error:
            problems.append(f"--set {name}: the value is not YAML: {_syntax(error)}")
            continue
        problems += [f"--set {name}: {problem}" for problem in repeated]
        if closed := _assign(content, name, parsed):
            problems.append(f"--set {name}: {closed!r} holds no further keys; set it as a whole")
    return problems


class EscapedText(Protocol):
    """Text with values of variables, of which it escapes each by its context."""

    @property
    def in_comment(self) -> bool: ...

    def add(self, text: str) -> None: ...

    def insert(self, value: str) -> bool: ...


def expand(
    value: Any,
    environment: Mapping[str, str] | None = None,
    *,
    statements: Sequence[str] = (),
    statement: Callable[[], EscapedText] | None = None,
) -> tuple[Any, dict[str, str]]:
    """Replace ``${VAR}``, ``${VAR:-default}`` and ``${file:PATH}`` in every string; ``$$`` stands for one dollar.

    As in a shell, the default applies where the variable is unset or empty. A file, such as a mounted secret, is
    replaced by its text without one line end at its end. In SQL a value is escaped in literals and quoted identifiers.
    Outside of these it must be a name or a number, unless ``${VAR!raw}`` declares that the variable holds SQL. Comments
    remain unchanged.

    Parameters
    ----------
    statements : fields that hold SQL
    statement : function that returns an empty statement, for these fields

    Returns
    -------
    The same structure with strings replaced, and problems by the dotted name of the field.
    """
    environment = os.environ if environment is None else environment
    problems: dict[str, str] = {}

    def walk(node: Any, where: tuple[str | int, ...]) -> Any:
        if isinstance(node, dict):
            return {key: walk(child, (*where, key)) for key, child in node.items()}
        if isinstance(node, list):
            return [walk(child, (*where, number)) for number, child in enumerate(node)]
        if isinstance(node, str):
            name = dotted(where)
            return in_sql(node, name) if name in statements else _REFERENCE.sub(lambda found: plain(found, name), node)
        return node

    def plain(found: re.Match[str], where: str) -> str:
        if found["raw"]:
            problems[where] = f"'!raw' is for SQL ({', '.join(statements)}); write ${{{found['name']}}} here"
            return ""
        return replace(found, where)

    def in_sql(text: str, where: str) -> str:
        assert statement is not None
        made, end = statement(), 0
        for found in _REFERENCE.finditer(text):
            made.add(text[end : found.start()])
            end = found.end()
            if made.in_comment:
                made.add(found[0])
            elif found["raw"] or found["name"] is found["file"] is None:
                made.add(replace(found, where))
            elif not made.insert(replace(found, where)):
                problems[where] = _outside_of_a_literal(found)
        made.add(text[end:])
        return str(made)

    def replace(found: re.Match[str], where: str) -> str:
        name, fallback = found["name"], found["fallback"]
        if found[0] == "$$":
            return "$"
        if found["file"] is not None:
            try:
                if text := Path(found["file"]).read_bytes().decode().removesuffix("\n").removesuffix("\r"):
                    return text
                problems[where] = "the file of a ${file:...} is empty; write the value into it"
            except OSError as error:
                problems[where] = f"the file of a ${{file:...}} cannot be read: {error.strerror}; correct its path"
            except UnicodeDecodeError:
                problems[where] = "the file of a ${file:...} is not UTF-8; write a key as letters and digits"
        elif name is None:
            problems[where] = (
                "a '${' that names no variable; write ${NAME}, ${NAME:-default}, ${file:PATH}, or $${ for the text "
                "itself"
            )
        elif environment.get(name) or (name in environment and fallback is None):
            return environment[name]
        elif fallback is not None:
            return str(fallback[2:])
        else:
            problems[where] = f"the environment variable {name} is not set; export it, or write ${{{name}:-default}}"
        return ""

    return walk(value, ()), problems


def _outside_of_a_literal(found: re.Match[str]) -> str:
    name = found["name"]
    what, remedy = ("a file", "") if name is None else (name, f", or ${{{name}!raw}} where the variable holds SQL")
    quoted = found[0] if name is None else f"${{{name}}}"
    return (
        f"the value of {what} is neither a name nor a number, and stands outside of a string literal; write '{quoted}' "
        f"in quotes{remedy}"
    )


def _assign(content: dict[str, Any], name: str, value: Any) -> str | None:
    """Set ``name`` in ``content``; return the prefix of the name that holds no keys, where there is one."""
    node, rest = content, name
    while True:
        key = max((k for k in node if rest == k or rest.startswith(f"{k}.")), key=len, default=rest.split(".", 1)[0])
        rest = rest[len(key) + 1 :]
        if not rest:
            node[key] = value
            return None
        below = node.get(key)
        if not isinstance(below, dict | None):
            return name[: -len(rest) - 1]
        node[key] = dict(below or {})  # a copy, because an alias may refer to the same mapping elsewhere
        node = node[key]


class _Loader(yaml.SafeLoader):
    """YAML loader that builds mappings, lists and text; the schema assigns types."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[str] = []
        self._depth = 0
        self._heights: dict[int, int] = {}  # levels below each node, by its id
        self._sizes: dict[int, int] = {}  # number of values per node, by its id
        self._written = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # PyYAML and users of the result recurse per level, and would exhaust Python's stack.
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self._depth += 1
        node = super().compose_node(parent, index) if self._depth <= _DEEPEST else None
        if node is None or self._depth + self._height(node) > _DEEPEST:
            raise yaml.composer.ComposerError(None, None, _TOO_DEEP, mark)
        if self._size(node) > self._written + _REPEATED:
            raise yaml.composer.ComposerError(None, None, _TOO_MANY, mark)
        self._depth -= 1
        return node

    def _height(self, node: yaml.Node) -> int:
        if id(node) not in self._heights and not isinstance(node, yaml.ScalarNode):
            below = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
            self._heights[id(node)] = max((1 + self._heights.get(id(child), 0) for child in below), default=0)
        return self._heights.get(id(node), 0)

    def _size(self, node: yaml.Node) -> int:
        """Return the number of values of a node with its aliases expanded; a long text counts as several."""
        if id(node) not in self._sizes:
            own, below = 1, 0
            if isinstance(node, yaml.ScalarNode):
                own += len(node.value) // 100
            else:
                parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
                below = sum(self._sizes.get(id(part), 1) for part in parts)
            self._written += own
            self._sizes[id(node)] = own + below
        return self._sizes[id(node)]

    def mapping(self, node: yaml.MappingNode) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _NULL_TAG:
                raise yaml.constructor.ConstructorError(None, None, _NOT_TEXT, key.start_mark)
            if key.value in seen:
                self.repeated.append(f"line {key.start_mark.line + 1}: the key {key.value!r} is given twice; keep one")
            seen.add(key.value)
        self.flatten_mapping(node)
        # Deep construction makes an anchor inside itself an error instead of an endless structure.
        return self.construct_mapping(node, deep=True)


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver(_NULL_TAG, re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile("^<<$"), ["<"])
_Loader.yaml_constructors = {
    "tag:yaml.org,2002:map": _Loader.mapping,
    "tag:yaml.org,2002:seq": lambda loader, node: loader.construct_sequence(node, deep=True),
    "tag:yaml.org,2002:str": _Loader.construct_scalar,
    _NULL_TAG: lambda loader, node: None,
    None: _Loader.construct_undefined,
}


def parse(text: str) -> Any:
    """Return a value of a field from its YAML, with each scalar as text.

    Raises
    ------
    ConfigError
        The text is not YAML.
    """
    try:
        return _parse(text)[0]
    except yaml.YAMLError as error:
        raise ConfigError("settings", [f"a value is not YAML: {_syntax(error)}"]) from None


def _parse(text: str) -> tuple[Any, list[str]]:
    loader = _Loader(text)
    try:
        return loader.get_single_data(), loader.repeated
    finally:
        loader.dispose()


def _syntax(error: yaml.YAMLError) -> str:
    """Describe a syntax error without quoting the text, which may hold a password."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return "holds a control character; YAML is plain text"
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = error.problem or ""
    if problem in (_NOT_TEXT, _TOO_DEEP, _TOO_MANY) or isinstance(error, yaml.scanner.ScannerError):
        return place + ("a tab; YAML is indented with spaces" if "'\\t'" in problem else problem)
    if isinstance(error, yaml.constructor.ConstructorError) or "tag" in problem:
        return place + "an unknown tag, or a structure inside itself; quote text that begins with '!'"
    if isinstance(error, yaml.composer.ComposerError):
        return (
            place + "an unknown alias, a repeated anchor, or a second document; quote text that begins with '*' or '&'"
        )
    return place + problem
