"""Mutants of a module: small faults that rules make of its source.

Positions come from the syntax tree and edits are made in the text, so a mutant differs in one expression or statement
only. Texts for readers stay unchanged (docstrings, messages, logs, any text with a space), and so do annotations.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

BRANCH = "branch removed"
COMPARISON = "comparison flipped"
CONSTANT = "constant changed"
OFF_BY_ONE = "off by one"
STATEMENT = "statement deleted"
SWAP = "argument swapped"
RULES = (BRANCH, COMPARISON, CONSTANT, OFF_BY_ONE, STATEMENT, SWAP)

_COMPILED = {"entry", "inner", "inner_leaf", "leaf", "procedure", "register_jitable"}
"""Decorators of compiled functions. Functions named ``lacking`` are compiled without one, as part of a promise."""

_OPPOSITE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">="),
    ast.GtE: (">=", "<"),
    ast.Gt: (">", "<="),
    ast.LtE: ("<=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}

_TEXTUAL = {"NewType", "TypeVar", "cast", "debug", "error", "exception", "info", "print", "warn", "warning"}
"""Calls whose arguments are types, or texts for readers."""

_UNORDERED = {"add", "gcd", "isinstance", "issubclass", "logical_and", "logical_or", "max", "maximum", "min", "minimum"}
"""Calls for which the order of arguments is of no matter, or that raise at once in the other order."""

_SAME_RESULT = {"copy", "strict"}
"""Keyword arguments that change only the cost of a correct program."""


@dataclass(frozen=True)
class Mutant:
    """One fault in one file.

    Attributes
    ----------
    file : path below the root, with slashes
    text : the line, without indentation
    rule : one of ``RULES``
    number : how many mutants with the same file, text and rule come before it
    line : number of the line, from 1; not part of ``key``, because it moves with the lines above
    function : qualified name, empty at module level
    compiled : whether numba compiles the function
    start, stop : the bytes of the file that ``new`` replaces
    """

    file: str
    text: str
    rule: str
    number: int
    line: int
    function: str
    compiled: bool
    start: int
    stop: int
    new: str

    @property
    def key(self) -> str:
        """The identity of the mutant, which stays while its line and the equal lines above it stay."""
        return f"{self.file} | {self.text} | {self.rule} | {self.number}"

    def applied(self, source: bytes) -> bytes:
        """Return the source of the file with the fault in it."""
        return source[: self.start] + self.new.encode() + source[self.stop :]


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Return all mutants of a module, in order of position."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    lines = source.decode().splitlines()
    count: Counter[tuple[str, str]] = Counter()
    made = []
    for start, stop, rule, new, line, function, compiled in sorted(finder.faults):
        text = lines[line - 1].strip()
        made.append(Mutant(file, text, rule, count[text, rule], line, function, compiled, start, stop, new))
        count[text, rule] += 1
    return made


class _Finder(ast.NodeVisitor):
    """Finds the places of a module where a rule applies.

    Attributes
    ----------
    faults : start, stop, rule, new text, line, function, whether it is compiled
    """

    def __init__(self, source: bytes) -> None:
        self.faults: list[tuple[int, int, str, str, int, str, bool]] = []
        self._source = source
        self._starts: list[int] = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._is_function = self._compiled = False
        self._edges: set[ast.AST] = set()

    def _start(self, node: Any) -> int:
        return self._starts[int(node.lineno) - 1] + int(node.col_offset)

    def _stop(self, node: Any) -> int:
        return self._starts[int(node.end_lineno) - 1] + int(node.end_col_offset)

    def _text(self, start: int, stop: int) -> str:
        return self._source[start:stop].decode()

    def _add(self, rule: str, node: Any, new: str, start: int | None = None, stop: int | None = None) -> None:
        start = self._start(node) if start is None else start
        stop = self._stop(node) if stop is None else stop
        function = ".".join(self._names) if self._is_function else ""
        self.faults.append((start, stop, rule, new, node.lineno, function, self._compiled))

    def _visit_all(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _visit_body(self, node: Any, *, is_function: bool, compiled: bool) -> None:
        before = self._is_function, self._compiled
        self._names.append(node.name)
        self._is_function, self._compiled = self._is_function or is_function, self._compiled or compiled
        self._visit_all(*node.body)
        self._is_function, self._compiled = before
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_all(*node.args.defaults, *node.args.kw_defaults)
        compiled = node.name == "lacking" or any(_name(decorator) in _COMPILED for decorator in node.decorator_list)
        self._visit_body(node, is_function=True, compiled=compiled)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_body(node, is_function=False, compiled=False)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(*node.args.defaults, *node.args.kw_defaults, node.body)

    def visit(self, node: ast.AST) -> None:
        # Texts for readers, and names that other files know.
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Raise):
            super().visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if _name(node.targets[0]) == "__all__":
            return
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._add(STATEMENT, node, "pass")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if _name(node.annotation) != "TypeAlias":
            self._visit_all(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(STATEMENT, node, "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(STATEMENT, node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call) and _name(node.value.func) not in _TEXTUAL:
            self._add(STATEMENT, node, "pass")
        self.generic_visit(node)

    def _visit_choice(self, node: ast.If | ast.IfExp) -> None:
        if _name(node.test) == "TYPE_CHECKING":
            return
        if not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test)):
            self._add(BRANCH, node.test, "False")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self._visit_choice(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._visit_choice(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            old, opposite = _OPPOSITE[type(node.ops[0])]
            start, stop = self._stop(node.left), self._start(node.comparators[0])
            between = self._text(start, stop)
            if old in between:
                self._add(COMPARISON, node, between.replace(old, opposite, 1), start, stop)
                if old in _BOUNDARY:
                    self._add(OFF_BY_ONE, node, between.replace(old, _BOUNDARY[old], 1), start, stop)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add | ast.Sub):
            self._edges |= {node.left, node.right}
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._edges |= {node.slice}
        self.generic_visit(node)

    def visit_Slice(self, node: ast.Slice) -> None:
        self._edges |= {part for part in (node.lower, node.upper) if part is not None}
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if node in self._edges:
            self._edges.add(node.operand)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        if name in _TEXTUAL:
            return
        if name == "range":
            self._edges |= set(node.args)
        if name not in _UNORDERED:
            # A compiled function mostly takes a structure of arrays first: in any other place it does not compile.
            begin = 1 if self._compiled and name != "range" else 0
            for first, second in pairwise(node.args[begin:]):
                self._swap(first, second)
        self._visit_all(node.func, *node.args, *(each.value for each in node.keywords if each.arg not in _SAME_RESULT))

    def _swap(self, first: ast.expr, second: ast.expr) -> None:
        # Of unlike kinds they mostly have unlike types as well, and any test fails.
        if type(first) is not type(second) or isinstance(first, ast.Starred) or ast.dump(first) == ast.dump(second):
            return
        begin, end, start, stop = self._start(first), self._stop(first), self._start(second), self._stop(second)
        self._add(SWAP, first, self._text(start, stop) + self._text(end, start) + self._text(begin, end), begin, stop)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(CONSTANT, node, str(not value))
        elif isinstance(value, int) and node in self._edges:
            self._add(OFF_BY_ONE, node, str(value + 1))
        elif isinstance(value, int | float):
            self._add(CONSTANT, node, repr(type(value)(1) if value == 0 else 2 * value))
        elif isinstance(value, str) and value and not any(map(str.isspace, value)):
            self._add(CONSTANT, node, repr(value + "_"))


def _name(node: ast.expr) -> str:
    """Return the last part of a dotted name; empty where it is none."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
