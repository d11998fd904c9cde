"""``crenel verify`` of topics and catalogs: those of a restored job, and those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.full.jobs.test_lake import artifact, host  # noqa: F401 - the fixture, whose Java has Hadoop's client
from tests.jobs.cli.test_verify import restored
from tests.support import broker as brokers
from tests.support.broker import Broker
from tests.support.cluster import free_port
from tests.support.launch import Host
from tests.support.outputs import ALIKE, AUDITED, configure, write_csv

pytestmark = pytest.mark.flink

_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username='crenel' password='{}';"


class SecureBroker(Broker):
    """A broker that asks for the password ``right``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        port, self.secure = self.address, f"localhost:{free_port()}"
        file = folder / "server.properties"
        text = file.read_text(encoding="utf-8").replace(
            f"PLAINTEXT://{port},", f"PLAINTEXT://{port},SASL_PLAINTEXT://{self.secure},"
        )
        login = _JAAS.format("right").replace(";", " user_crenel='right';")
        protocols = ",".join(f"{name}:{name}" for name in ("PLAINTEXT", "SASL_PLAINTEXT"))
        text += f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}\n"
        text += f"sasl.enabled.mechanisms=PLAIN\nlistener.name.sasl_plaintext.plain.sasl.jaas.config={login}\n"
        file.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = SecureBroker(tmp_path_factory.mktemp("broker"))
    made.start()
    made.create({"audit": 1})
    yield made
    made.stop()


def of_kafka(folder: Path, address: str, topic: str = "audit", password: str = "right") -> Path:
    """Return a configuration whose released rows are files that can be read, and whose audit log is a topic."""
    path = configure(folder, ("released",))
    write_csv(folder / "released", ALIKE)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    content["sinks"]["audit"] = {
        "connector": "kafka",
        "topic": topic,
        "format": "json",
        "properties.bootstrap.servers": address,
        "properties.security.protocol": "SASL_PLAINTEXT",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.jaas.config": _JAAS.format(password).replace(
            "org.apache.kafka", "org.apache.flink.kafka.shaded.org.apache.kafka"
        ),
        "properties.default.api.timeout.ms": "5000",
        "properties.request.timeout.ms": "4000",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "unreadable",
    }
    content["flink"] = {"pipeline.jars": f"file://{brokers.connector()}"}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def require_unjudged(mini: Host, path: Path, *words: str) -> None:
    done = mini.crenel("verify", path)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert [word for word in words if word not in done.stderr] == [], done.stderr
    assert "right" not in done.stderr


def test_without_the_topic_the_password_or_the_broker_nothing_is_judged(
    mini: Host, broker: SecureBroker, tmp_path: Path
) -> None:
    read = mini.crenel("verify", of_kafka(tmp_path, broker.secure))
    assert read.returncode == 1, read.stdout + read.stderr  # the topic was read: it holds no release of these rows
    require_unjudged(mini, of_kafka(tmp_path, broker.secure, topic="gone"), "outputs cannot be read", "topic")
    require_unjudged(mini, of_kafka(tmp_path, broker.secure, password="other"), "outputs cannot be read")
    away = f"localhost:{free_port()}"
    require_unjudged(mini, of_kafka(tmp_path, away), "outputs cannot be read", "Kafka did not answer")


def test_topics_of_a_job_that_was_restored_with_another_k_and_column_are_read_together(
    mini: Host, broker: SecureBroker, tmp_path: Path
) -> None:
    both = restored(tmp_path, "json")
    topics = {name: f"restored-{name}" for name in ("released", "audit")}
    broker.create(dict.fromkeys(topics.values(), 1))
    for name, topic in topics.items():
        lines = [line for part in sorted((tmp_path / name).iterdir()) for line in part.read_bytes().splitlines()]
        broker.write(topic, [(0, line) for line in lines])
    for path in both:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for name, topic in topics.items():
            content["sinks"][name] = {
                "connector": "kafka",
                "topic": topic,
                "format": "json",
                "properties.bootstrap.servers": broker.address,
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": topic,
            }
        content["flink"] = {"pipeline.jars": f"file://{brokers.connector()}"}
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
    done = mini.crenel("verify", *both)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "k under after.yaml" in done.stdout
    alone = mini.crenel("verify", both[1])
    assert (alone.returncode, "rows have no 'diversity_ward'" in alone.stderr) == (2, True), alone.stdout + alone.stderr


def test_without_the_catalog_nothing_is_judged(host: Host, tmp_path: Path) -> None:  # noqa: F811
    path = configure(tmp_path, ("audit",))
    write_csv(tmp_path / "audit", AUDITED)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    uri = f"http://localhost:{free_port()}"
    content["catalogs"] = {"lake": {"type": "iceberg", "catalog-type": "rest", "uri": uri}}
    content["sinks"]["released"] = {"table": "lake.default.released"}
    content["accept_duplicates"] = True
    (jar,) = artifact("iceberg-flink-runtime-2.1")
    content["flink"] = {"pipeline.jars": f"file://{jar}"}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    require_unjudged(host, path, "catalogs.lake: cannot be opened: HttpHostConnectException")
