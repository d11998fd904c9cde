"""Reading small text files that a configuration names."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path, error: type[ValueError]) -> str:
    """All of a file in UTF-8, with its line breaks; raises ``error``, which names the file, where it cannot be read."""
    try:
        # Bytes, because a text file would lose the CR of a line break within quotes, and with it the rows that have it.
        return path.read_bytes().decode("utf-8-sig")
    except OSError as failure:
        raise error(f"{path}: cannot be read: {failure.strerror}") from None
    except UnicodeDecodeError as failure:
        raise error(f"{path}: {not_utf8(failure)}") from None


def not_utf8(failure: UnicodeDecodeError) -> str:
    """Return the line of a file at which it is not UTF-8, with the remedy."""
    return f"line {failure.object.count(10, 0, failure.start) + 1} is not UTF-8 text; save the file as UTF-8"
