"""Tables in Markdown, as they stand in ``benchmarks/RESULTS.md``."""

from __future__ import annotations


class Table:
    """A title, a header and rows."""

    def __init__(self, title: str, header: list[str]) -> None:
        self.title = title
        self._header = header
        self._rows: list[list[str]] = []

    def add(self, *cells: object) -> None:
        """Add a row."""
        self._rows.append([str(cell) for cell in cells])

    def __str__(self) -> str:
        rows = [self._header, ["---"] * len(self._header), *self._rows]
        return f"### {self.title}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
