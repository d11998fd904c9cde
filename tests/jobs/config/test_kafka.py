"""Transactions of sinks get timeouts that brokers allow, and classes of Kafka have the connector's names."""

from __future__ import annotations

import json

import pytest
import yaml

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.connectors import TIMEOUT, unshaded_classes, with_timeout
from crenel.jobs.config.delivery import unfit_timeouts
from crenel.jobs.config.load import load
from crenel.jobs.config.start_warnings import timeout_warnings
from tests.support.launch import ROOT

ONCE = {"connector": "kafka", "sink.delivery-guarantee": "Exactly-Once"}


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
        (89_999, 30_000, ["give 90000 or more"]),
        (900_001, 30_000, ["refuses more than its transaction.max.timeout.ms, 900000 by default, at each start"]),
    ],
)
def test_a_timeout_is_more_than_an_interval(timeout: int, interval: int, expected: list[str]) -> None:
    options = ONCE | {TIMEOUT: str(timeout)}
    assert list(unfit_timeouts({"released": options})) == []
    warnings = list(timeout_warnings({"released": options, "audit": {"connector": "blackhole"}}, interval))
    assert len(warnings) == len(expected)
    for warning, part in zip(warnings, expected, strict=True):
        assert warning.startswith(f"sinks.released.{TIMEOUT}: ")
        assert part in warning


SASL = "properties.sasl.jaas.config"


@pytest.mark.parametrize(
    "module", ["plain.PlainLoginModule", "scram.ScramLoginModule", "oauthbearer.OAuthBearerLoginModule"]
)
def test_a_class_of_kafka_has_the_name_that_the_connector_gives_it(module: str) -> None:
    name = f"org.apache.kafka.common.security.{module}"
    given = f'{name} required username="me" password="hidden";'
    tables = {"source.ddl": {"connector": "kafka", SASL: given}, "sinks.audit": ONCE | {SASL: f" {given}"}}
    problems = list(unshaded_classes(tables, "file:///flink-sql-connector-kafka-5.0.0-2.2.jar"))
    assert [problem.partition(" names")[0] for problem in problems] == [f"{field}: '{SASL}'" for field in tables]
    for problem in problems:
        assert f" as org.apache.flink.kafka.shaded.{name}; give that name" in problem
        assert "hidden" not in problem
    shaded = {"sinks.audit": ONCE | {SASL: given.replace("org.apache", "org.apache.flink.kafka.shaded.org.apache")}}
    assert list(unshaded_classes(shaded, "")) == []
    assert list(unshaded_classes(tables, "file:///flink-connector-kafka.jar;file:///kafka-clients-4.1.0.jar")) == []
    assert list(unshaded_classes({"sinks.audit": {"connector": "mine", SASL: given}}, "")) == []


def test_a_configuration_with_an_unshaded_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRENEL_SUBJECT_KEY", "0123456789abcdef")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    text = (ROOT / "conf" / "kafka.yaml").read_text(encoding="utf-8")
    ddl = yaml.safe_load(text)["source"]["ddl"].replace("'format' = 'raw'", f"'format' = 'raw', '{SASL}' = '{module}'")
    given = [f"source.ddl={json.dumps(ddl)}", f"sinks.released.{SASL}={json.dumps(module)}"]
    with pytest.raises(ConfigError) as error:
        load(ROOT / "conf" / "kafka.yaml", given)
    assert [problem.partition(" names")[0] for problem in error.value.problems] == [
        f"source.ddl: '{SASL}'",
        f"sinks.released: '{SASL}'",
    ]
