"""Registries of schemas in memory: an object, and a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

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


@contextmanager
def serving(schemas: dict[int, str]) -> Iterator[str]:
    """Yield the address of a server that has some schemas, with Confluent's interface."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = schemas.get(int(self.path.rpartition("/")[2]))
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": text}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
