"""Kafka in a configuration: reachability of brokers and of a schema registry, and timeouts of sink transactions.

A timeout must exceed the checkpoint interval and respect the broker's maximum.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

SERVERS = "properties.bootstrap.servers"

_SECONDS = 2.0  # for a connection to one broker
_ADDRESS = re.compile(r"\[?(?P<host>[^\[\]\s,/]+?)\]?:(?P<port>\d{1,5})")

TIMEOUT = "properties.transaction.timeout.ms"

ALLOWED = 900_000
"""Milliseconds that a broker allows by default (``transaction.max.timeout.ms``).

Flink's default is four times that, which such a broker refuses at each start.
"""

_CHECKPOINT = 60_000
"""Milliseconds to allow for a checkpoint and a preceding restart, beyond the checkpoint interval."""

_LARGEST = 2**31 - 1


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


def broker_warnings(tables: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a warning for each table whose brokers do not answer, with its field; ``tables`` as above."""
    for field in silent_tables(tables):
        yield (
            f"{field}: no Kafka broker at '{SERVERS}' = '{tables[field][SERVERS]}' accepts a connection from this "
            "machine; start the broker, or correct the address"
        )


def registry_warnings(field: str, url: str) -> Iterator[str]:
    """Yield a warning if the schema registry at an address does not answer; ``field``: of the address."""
    found = urlsplit(url)
    port = found.port or (443 if found.scheme == "https" else 80)
    if found.hostname is not None and not _accepts(found.hostname, port):
        yield (
            f"{field}: no schema registry at {url} accepts a connection from this machine; start it, or correct the "
            "address. Until it answers, the job reads no record"
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


def in_transactions(options: Mapping[str, str]) -> bool:
    """Return whether a Kafka sink with these options writes in transactions."""
    return options.get("sink.delivery-guarantee", "").lower() == "exactly-once"


def with_timeout(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a sink, with a default timeout for Kafka transactions."""
    default = {TIMEOUT: str(ALLOWED)} if _kafka(options) and in_transactions(options) else {}
    return default | dict(options)


def unfit_timeouts(sinks: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield problems of the timeouts of sinks; ``sinks``: options of the connector by output."""
    for name, options in sinks.items():
        if _kafka(options) and TIMEOUT in options and _milliseconds(options) is None:
            yield (
                f"sinks.{name}.{TIMEOUT}: is not a whole number of milliseconds above 0; {ALLOWED}, which brokers "
                "allow by default, or leave it out"
            )


def timeout_warnings(sinks: Mapping[str, Mapping[str, str]], interval: int) -> Iterator[str]:
    """Yield warnings about the timeouts before a job starts, each with its field.

    Parameters
    ----------
    sinks : options of the connector by output
    interval : milliseconds between two checkpoints
    """
    for name, options in sinks.items():
        timeout = _milliseconds(options) if _kafka(options) and in_transactions(options) else None
        if timeout is None:
            continue
        if timeout > ALLOWED:
            yield (
                f"sinks.{name}.{TIMEOUT}: is more than the {ALLOWED} ms that Kafka's brokers allow by default. Where "
                "transaction.max.timeout.ms of the broker is less, the job never comes to work, and is started again "
                "for ever"
            )
        if timeout < interval + _CHECKPOINT:
            yield (
                f"sinks.{name}.{TIMEOUT}: is {timeout} ms, and a transaction is open from one checkpoint to the end of "
                f"the next, with execution.checkpointing.interval at {interval} ms. Kafka takes back what is open for "
                f"longer; give {interval + _CHECKPOINT} or more, and no less than the longest outage of the job"
            )


def _kafka(options: Mapping[str, str]) -> bool:
    return options.get("connector") in ("kafka", "upsert-kafka")


def _milliseconds(options: Mapping[str, str]) -> int | None:
    text = options.get(TIMEOUT, "").strip()
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text) <= _LARGEST else None
