"""Errors about settings and input, and about violated invariants; reading of the text files that settings name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar


class PolicyError(ValueError):
    """A policy that cannot be enforced. The message names the field and a valid value."""


class RestoreError(PolicyError):
    """Error for settings that stored state refuses at each start, until they are those that it was made with."""


class FieldError(ValueError):
    """Error for one field of a section.

    Attributes
    ----------
    field : its name within the section
    """

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


class ConfigError(PolicyError):
    """Error for invalid settings.

    Attributes
    ----------
    problems : all problems, each ``dotted.field: what is wrong; what would be valid``, never a field's value
    """

    def __init__(self, origin: Path | str, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"{origin} is not a valid configuration:", *self.problems]))


class InvariantError(RuntimeError):
    """A violated invariant of Crenel. The message is constant, so it contains no value of a record."""


class InputError(Exception):
    """Invalid user input; the message names the field, option or file, and the remedy.

    Attributes
    ----------
    lead : text between the name of the configuration and the message; None: the message stands alone
    """

    lead: ClassVar[str | None] = None


def read_text(path: Path, error: type[ValueError]) -> str:
    """Return the text of a UTF-8 file with its original line breaks; raise ``error``, with its name, on failure."""
    try:
        # Bytes, because text mode would drop the CR of a line break in quotes, and rows with such a value would not
        # match.
        return path.read_bytes().decode("utf-8-sig")
    except OSError as failure:
        raise error(f"{path}: cannot be read: {failure.strerror}") from None
    except UnicodeDecodeError as failure:
        raise error(f"{path}: {not_utf8(failure)}") from None


def not_utf8(failure: UnicodeDecodeError) -> str:
    """Return the line of a file at which it is not UTF-8, with the remedy."""
    return f"line {failure.object.count(10, 0, failure.start) + 1} is not UTF-8 text; save the file as UTF-8"
