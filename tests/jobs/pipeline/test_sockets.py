"""Beam's class that binds its servers, as it is replaced, and classes that are not the one that is known."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pyflink
import pytest

from crenel.jobs.pipeline.sockets import UnknownChannelsError, bound

SERVERS = "org/apache/beam/sdk/fn/server/ServerFactory"
BINDS = f"{SERVERS}$InetSocketAddressServerFactory"


def shipped(name: str) -> bytes:
    """Return the class file of Flink's jar for Python."""
    (path,) = (Path(pyflink.__file__).parent / "opt").glob("flink-python-*.jar")
    with ZipFile(path) as jar:
        return jar.read(f"{name}.class")


def test_the_class_that_flink_ships_is_replaced_and_nothing_of_its_code_moves() -> None:
    before = shipped(BINDS)
    after = bound(before)
    added = b"forAddress", b"(Ljava/net/SocketAddress;)L"
    assert [(text in before, text in after) for text in added] == [(False, True), (False, True)]
    # The methods stand in the last bytes, behind the constants.
    changed = [at for at in range(1, 1000) if before[-at] != after[-at]]
    assert changed
    assert max(changed) - min(changed) < len(b"\x2b\xb6..\xb8..")  # one call


@pytest.mark.parametrize("name", [SERVERS, f"{SERVERS}$EpollSocket"])
def test_another_class_is_refused(name: str) -> None:
    with pytest.raises(UnknownChannelsError):
        bound(shipped(name))


def test_a_class_that_is_replaced_already_is_refused() -> None:
    with pytest.raises(UnknownChannelsError, match="does not bind to a port alone"):
        bound(bound(shipped(BINDS)))
