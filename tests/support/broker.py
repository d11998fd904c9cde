"""A Kafka broker, one node without ZooKeeper, and Flink's connector to it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from crenel.jobs.local.java import find_java
from tests.support.artifacts import jars
from tests.support.cluster import free_port

_SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
advertised.listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
controller.quorum.bootstrap.servers=localhost:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_ID = "4L6g3nShT-eMCtK--X86sw"


def connector() -> Path:
    """Return the jar of Flink's connector; ``CRENEL_TEST_CONNECTOR`` names one for another version of Flink."""
    if given := os.environ.get("CRENEL_TEST_CONNECTOR"):
        return Path(given)
    (found,) = jars("kafka").glob("flink-sql-connector-kafka-*.jar")
    return found


class Broker:
    """A broker on this machine, with everything of it in one folder.

    Attributes
    ----------
    address : host and port
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.address = f"localhost:{self._port}"
        settings = _SETTINGS.format(port=self._port, controller=free_port(), folder=folder)
        (folder / "server.properties").write_text(settings, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._run("kafka.tools.StorageTool", "format", "--standalone", "-t", _ID, "-c").wait()
        self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = self._run("kafka.Kafka")
        until = time.monotonic() + 60
        while True:
            try:
                self._admin.list_topics(timeout=1)
                return
            except KafkaException:
                assert self._process.poll() is None, (self._folder / "broker.out").read_text(encoding="utf-8")
                assert time.monotonic() < until, f"no broker after a minute; log in {self._folder}"

    def stop(self) -> None:
        """``kill -9``, if it runs: what it has acknowledged must be there when it is started again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def core_seconds(self) -> float:
        """Return the processor time of the running broker so far, in seconds."""
        assert self._process is not None
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics; ``topics``: partitions by name."""
        made = self._admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()])
        for topic in made.values():
            topic.result(30)

    def write(self, topic: str, records: Iterable[tuple[int, bytes | None]]) -> None:
        """Write records to a topic, each to a partition."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 20, "log_level": 0})
        failed: list[KafkaError] = []
        for partition, record in records:
            producer.produce(
                topic, record, partition=partition, on_delivery=lambda error, _: error and failed.append(error)
            )
            producer.poll(0)
        producer.flush(60)
        assert not failed, failed[0]

    def read(self, topic: str, decode: Callable[[bytes], Any] = json.loads) -> list[Any]:
        """Return all records committed to a topic so far, decoded from JSON by default; of each partition in order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "tests",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(30)
            assert message is not None, f"{topic} cannot be read to its end"
            if message.error() is None:
                found.append(decode(message.value()))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended += 1
        consumer.close()
        return found

    def behind(self, topic: str, group: str) -> int:
        """Return the number of records of a topic behind the offsets that a group of consumers has committed."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group, "log_level": 0})
        parts = [TopicPartition(topic, number) for number in consumer.list_topics(topic, 30).topics[topic].partitions]
        behind = 0
        for place in consumer.committed(parts, timeout=30):
            first, end = consumer.get_watermark_offsets(place, timeout=30)
            behind += end - max(place.offset, first)
        consumer.close()
        return behind

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        java = find_java() / "bin" / "java"
        with (self._folder / "broker.out").open("ab") as out:
            return subprocess.Popen(
                [java, *_JAVA, "-cp", jars("kafka") / "*", program, *arguments, "server.properties"],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )


def tool(command: list[str]) -> None:
    """Do what one of Kafka's command line tools does, as far as the tutorial uses it.

    Parameters
    ----------
    command : ``kafka-topics.sh``, ``kafka-console-producer.sh`` or ``kafka-console-consumer.sh``, and its arguments
    """
    options = argparse.ArgumentParser(allow_abbrev=False)
    options.add_argument("--bootstrap-server", required=True)
    options.add_argument("--topic", required=True)
    options.add_argument("--partitions", type=int)
    options.add_argument("--max-messages", type=int)
    options.add_argument("--isolation-level", choices=["read_committed"])
    options.add_argument("--create", action="store_true")
    options.add_argument("--from-beginning", action="store_true")
    given = options.parse_args(command[1:])
    connected = {"bootstrap.servers": given.bootstrap_server, "log_level": 0}
    if given.create:
        admin = AdminClient(connected)
        admin.create_topics([NewTopic(given.topic, given.partitions, 1)])[given.topic].result(30)
    elif given.from_beginning:
        reader = {"group.id": "tool", "isolation.level": given.isolation_level, "auto.offset.reset": "earliest"}
        consumer = Consumer({**connected, **reader})
        consumer.subscribe([given.topic])
        for _ in range(given.max_messages):
            message = consumer.poll(30)
            assert message is not None, f"{given.topic} has fewer records"
            print(message.value().decode())
        consumer.close()
    else:
        producer = Producer(connected)
        for line in sys.stdin.buffer:
            producer.produce(given.topic, line.rstrip(b"\n"))
        producer.flush(60)
