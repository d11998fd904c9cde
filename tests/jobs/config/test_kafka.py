"""Brokers that do not answer are reported by field, and transactions of sinks get timeouts that brokers allow."""

from __future__ import annotations

import socket

import pytest

from crenel.jobs.config.kafka import (
    SERVERS,
    broker_warnings,
    registry_warnings,
    silent_tables,
    timeout_warnings,
    unfit_timeouts,
    with_timeout,
)
from tests.support.cluster import free_port

TIMEOUT = "properties.transaction.timeout.ms"
ONCE = {"connector": "kafka", "sink.delivery-guarantee": "Exactly-Once"}


def table(servers: str, connector: str = "kafka") -> dict[str, dict[str, str]]:
    return {"source.ddl": {"connector": connector, SERVERS: servers}}


def test_a_table_is_silent_where_none_of_its_brokers_accepts_a_connection() -> None:
    gone = free_port()
    with socket.socket() as broker:
        broker.bind(("localhost", 0))
        broker.listen()
        there = broker.getsockname()[1]
        assert silent_tables(table(f"localhost:{gone}, localhost:{there}")) == []
        assert silent_tables(table(f"[::1]:{gone},localhost:{gone}")) == ["source.ddl"]
    assert silent_tables(table(f"localhost:{there}", "upsert-kafka")) == ["source.ddl"]


@pytest.mark.parametrize("servers", ["", "localhost", "PLAINTEXT://localhost:1"])
def test_an_address_that_is_not_host_and_port_is_left_to_kafka(servers: str) -> None:
    assert silent_tables(table(servers)) == []


def test_tables_of_other_connectors_are_not_looked_at() -> None:
    assert silent_tables(table(f"localhost:{free_port()}", "filesystem")) == []


def test_the_warning_has_field_address_and_remedy() -> None:
    port = free_port()
    assert list(broker_warnings(table(f"localhost:{port}"))) == [
        f"source.ddl: no Kafka broker at '{SERVERS}' = 'localhost:{port}' accepts a connection from this machine; "
        "start the broker, or correct the address"
    ]
    assert silent_tables(table("Eastley.invalid:9092")) == ["source.ddl"]


@pytest.mark.parametrize("connector", ["kafka", "upsert-kafka"])
def test_a_sink_in_transactions_gets_the_timeout_that_brokers_allow(connector: str) -> None:
    once = ONCE | {"connector": connector}
    assert with_timeout(once) == once | {TIMEOUT: "900000"}
    assert with_timeout(once | {TIMEOUT: "60000"})[TIMEOUT] == "60000"


@pytest.mark.parametrize(
    "options", [{"connector": "kafka"}, ONCE | {"connector": "filesystem"}, ONCE | {"sink.delivery-guarantee": "none"}]
)
def test_no_other_sink_gets_one(options: dict[str, str]) -> None:
    assert with_timeout(options) == options


@pytest.mark.parametrize("given", ["", "15 min", "9e5", "-1", "0", "900000.0", str(2**31), "٣"])
def test_what_is_no_number_of_milliseconds_is_refused(given: str) -> None:
    (problem,) = unfit_timeouts({"audit": ONCE | {TIMEOUT: given}, "released": {"connector": "print", TIMEOUT: given}})
    assert problem.startswith(f"sinks.audit.{TIMEOUT}: is not a whole number of milliseconds above 0; 900000")


@pytest.mark.parametrize(
    ("timeout", "interval", "expected"),
    [
        (900_000, 30_000, []),
        (900_000, 840_000, []),
        (900_000, 840_001, ["a transaction is open from one checkpoint"]),
        (900_001, 30_000, ["more than the 900000 ms"]),
        (89_999, 30_000, ["give 90000 or more"]),
    ],
)
def test_it_is_more_than_an_interval_and_no_more_than_brokers_allow(
    timeout: int, interval: int, expected: list[str]
) -> None:
    options = ONCE | {TIMEOUT: str(timeout)}
    assert list(unfit_timeouts({"released": options})) == []
    warnings = list(timeout_warnings({"released": options, "audit": {"connector": "blackhole"}}, interval))
    assert len(warnings) == len(expected)
    for warning, part in zip(warnings, expected, strict=True):
        assert warning.startswith(f"sinks.released.{TIMEOUT}: ")
        assert part in warning


def test_a_registry_that_accepts_no_connection_is_named_with_its_field() -> None:
    with socket.socket() as server:
        server.bind(("localhost", 0))
        server.listen()
        assert list(registry_warnings("field", f"http://localhost:{server.getsockname()[1]}/apis")) == []
    (warning,) = registry_warnings("field", f"http://localhost:{free_port()}")
    assert warning.startswith("field: no schema registry at http://localhost:")
