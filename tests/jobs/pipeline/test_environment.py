"""Defaults of Flink that would harm a long job, names that are asked of Java once, and connections to Java."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from py4j import protocol as proto
from py4j.java_gateway import GatewayClient, JavaClass, JavaPackage, JVMView
from pyflink.fn_execution.state_impl import CachingMapStateHandler

from crenel.jobs.pipeline.environment import DEFAULTS, keep_java_threads, remember_java_names

_STEPS = 500


class Cache(dict[Any, Any]):
    """Cache of states as Beam has it, without a bound."""

    def is_cache_enabled(self) -> bool:
        return True

    def peek(self, key: Any) -> Any:
        return self.get(key)

    def put(self, key: Any, value: Any) -> None:
        self[key] = value


def kept_after(entries: int) -> int:
    """Keys and entries that PyFlink keeps once so many entries of a map state were written, and removed again."""
    cache = Cache()
    underlying = SimpleNamespace(append_raw=lambda key, data: None)
    beam = SimpleNamespace(
        _state_cache=cache, _underlying=underlying, _context=SimpleNamespace(user_state_cache_token=b"1")
    )
    handler = CachingMapStateHandler(beam, int(DEFAULTS["python.map-state.read-cache-size"]))
    key = SimpleNamespace(SerializeToString=lambda: b"blocks")

    def write(what: Any, stream: Any) -> None:
        stream.write(what)

    for step in range(entries):
        name = step.to_bytes(8, "big")
        handler.extend(key, [(handler.SET_VALUE, name, b"block")], write, write)
        handler.extend(key, [(handler.DELETE, name, None)], write, write)
    return sum(len(state) + len(state.get_cached_keys()) for state in cache.values())


@pytest.mark.parametrize("entries", [1, _STEPS])
def test_nothing_is_kept_of_entries_that_are_gone(entries: int) -> None:
    assert kept_after(entries) == 0


def test_java_is_asked_once_for_a_name_but_for_a_class_that_a_later_jar_may_hold() -> None:
    requests: list[str] = []
    classes = {"org.Known"}

    def send_command(command: str) -> str:
        requests.append(name := command.split("\n")[2])
        return str(proto.SUCCESS_CLASS + name if name in classes else proto.SUCCESS_PACKAGE)

    remember_java_names()
    wrapped = JVMView.__getattr__
    remember_java_names()
    assert JVMView.__getattr__ is wrapped  # not wrapped once more for each job of a process
    client = SimpleNamespace(send_command=send_command, gateway_property=SimpleNamespace(pool=None), converters=())
    java = JVMView(client, "view", id="v")
    for _ in range(2):
        assert isinstance(java.org.Known, JavaClass)
    assert isinstance(java.org.Later, JavaPackage)
    classes.add("org.Later")
    assert isinstance(java.org.Later, JavaClass)
    assert requests == ["org", "org.Known", "org.Later", "org.Later"]


def test_a_thread_keeps_its_connection_while_others_use_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    number, reached, ended = count(), Event(), Event()

    def connection(_: GatewayClient) -> Any:
        own = f"!ys{next(number)}"

        def send_command(command: str) -> str:
            if command == "wait":
                reached.set()
                assert ended.wait(60)
            return own

        return SimpleNamespace(send_command=send_command)

    monkeypatch.setattr(GatewayClient, "_create_connection", connection)
    client = GatewayClient()
    before = client.send_command("name")
    keep_java_threads(client)
    keep_java_threads(client)
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(client.send_command, "wait")
        assert reached.wait(60)
        assert client.send_command("name") == before
        ended.set()
        assert waiting.result() != before
        assert other.submit(client.send_command, "name").result() == waiting.result()
    assert client.send_command("name") == before
    client.deque.pop()
    assert len(client.deque) == 0
