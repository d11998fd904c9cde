"""Safe insertion of variables into SQL: a value stays one string literal, one identifier or one word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FIELDS = ("source.ddl", "source.query", "source.forget.ddl", "source.forget.query")
"""Fields of a configuration that hold a statement."""

_WORD = re.compile(r"[A-Za-z0-9_.]*")
_ESCAPING = re.compile(r"(?<![\w$])(?:[eE]|[uU]&)$")
"""Prefixes of a literal in which a backslash is an escape character."""


def statements(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a raw configuration, by their fields."""
    found: dict[str, Any] = {}
    for field in FIELDS:
        node: Any = content
        for key in field.split("."):
            node = node.get(key) if isinstance(node, dict) else None
        found[field] = node
    return found


class Statement:
    """A statement built from text and from the values of variables.

    It tracks the context of the next character, as Flink's parser does: code, a literal, a quoted identifier or a
    comment. A hint (``/*+ ... */``) is code.
    """

    def __init__(self) -> None:
        self._text = ""
        self._state = "code"  # or "'", "\\'" (a literal in which a backslash escapes), "`", "--", "/*", or "/*?"
        self._before = ""  # the previous character, if it may form one token with the next
        self._closed = ""  # the kind of literal that the previous character closed

    def __str__(self) -> str:
        return self._text

    @property
    def in_comment(self) -> bool:
        """Whether the next character is part of a comment."""
        return self._state in ("--", "/*", "/*?")

    def add(self, text: str) -> None:
        """Append text unchanged."""
        for character in text:
            self._step(character)
            self._text += character

    def insert(self, value: str) -> bool:
        """Append the value of a variable; reject it and return False if it could be more than one token."""
        if self._state in ("'", "`"):
            self.add(value.replace(self._state, 2 * self._state))
        elif _WORD.fullmatch(value):
            self.add(value)
        else:
            return False
        return True

    def _step(self, character: str) -> None:
        before, self._before = self._before, ""
        closed, self._closed = self._closed, ""
        if self._state == "/*?":
            # A '+' starts a hint. The '*' that begins a comment does not end it.
            self._state = "code" if character == "+" else "/*"
        if self._state == "code":
            self._in_code(before, closed, character)
        elif self._state == "--":
            self._state = "code" if character in "\r\n" else "--"
        elif self._state == "/*":
            self._state = "code" if before + character == "*/" else "/*"
            self._before = character if self._state == "/*" else ""
        elif self._state == "\\'" and before == "\\":
            pass  # an escaped character, possibly a quote
        elif character == self._state[-1]:
            self._state, self._closed = "code", self._state
        else:
            self._before = character

    def _in_code(self, before: str, closed: str, character: str) -> None:
        pair = before + character
        if pair in ("--", "//"):
            self._state = "--"
        elif pair == "/*":
            self._state = "/*?"
        elif character in "'`":
            # A doubled quote does not end its literal.
            escapes = closed == "\\'" if closed[-1:] == character else bool(_ESCAPING.search(self._text[-3:]))
            self._state = "\\'" if character == "'" and escapes else character
        elif pair != "*/":  # the end of a hint
            self._before = character
