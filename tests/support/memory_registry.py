"""A registry of schemas in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from crenel.operators.encode.schema_registry import SchemaRegistry


@dataclass(frozen=True)
class MemoryRegistry(SchemaRegistry):
    """A registry in memory.

    Attributes
    ----------
    schemas : texts by number
    requests : numbers in the order in which they were asked for
    """

    url: str = "http://memory"
    schemas: dict[int, str] = field(default_factory=dict)
    requests: list[int] = field(default_factory=list)

    def schema(self, number: int) -> str | None:
        """Return a text; None if there is none."""
        self.requests.append(number)
        return self.schemas.get(number)
