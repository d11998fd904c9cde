"""Kafka brokers that do not answer are told of by the field that names them."""

from __future__ import annotations

import socket

import pytest

from crenel.jobs.config.brokers import SERVERS, cautions_of_brokers, silent_tables
from tests.support.cluster import free_port


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
    assert list(cautions_of_brokers(table(f"localhost:{port}"))) == [
        f"source.ddl: no Kafka broker at '{SERVERS}' = 'localhost:{port}' accepts a connection from this machine; "
        "start the broker, or correct the address"
    ]
    assert silent_tables(table("Eastley.invalid:9092")) == ["source.ddl"]
