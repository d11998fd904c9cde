"""Kafka brokers that a configuration names, and their reachability from this machine."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping

SERVERS = "properties.bootstrap.servers"

_SECONDS = 2.0  # for a connection to one broker
_ADDRESS = re.compile(r"\[?(?P<host>[^\[\]\s,/]+?)\]?:(?P<port>\d{1,5})")


def silent_tables(tables: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the fields of the tables whose brokers all refuse a connection from here; ``tables``: options by field."""
    known: dict[str, bool] = {}
    silent = []
    for field, options in tables.items():
        servers = options.get(SERVERS)
        if servers and "kafka" in options.get("connector", ""):
            if servers not in known:
                known[servers] = _answer(servers)
            if not known[servers]:
                silent.append(field)
    return silent


def cautions_of_brokers(tables: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a warning for each table whose brokers do not answer, with its field; ``tables`` as above."""
    for field in silent_tables(tables):
        yield (
            f"{field}: no Kafka broker at '{SERVERS}' = '{tables[field][SERVERS]}' accepts a connection from this "
            "machine; start the broker, or correct the address"
        )


def _answer(servers: str) -> bool:
    """Return whether a broker accepts a connection; addresses other than HOST:PORT are left to Kafka."""
    found = [_ADDRESS.fullmatch(server.strip()) for server in servers.split(",") if server.strip()]
    return any(address is None or _accepts(address["host"], int(address["port"])) for address in found)


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=_SECONDS):
            return True
    except (OSError, OverflowError, UnicodeError):
        return False
