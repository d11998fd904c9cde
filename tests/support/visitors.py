"""The people of the demo's stream, of whom no output tells."""

from __future__ import annotations

from pathlib import Path

_LOOKED_FOR = 200


def assert_tells_nobody(stream: Path, text: str) -> None:
    """Nothing of a record: no name, no person."""
    for line in stream.read_text(encoding="utf-8").splitlines()[:_LOOKED_FOR]:
        _, person, name, *_ = line.split(",")
        assert person not in text
        assert name not in text
