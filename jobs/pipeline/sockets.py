"""Sockets of Flink's Python processes: Beam's channels bind to loopback, and py4j's gateway requires a token.

A worker runs on the machine of the Java process that starts it. Beam passes a loopback address to the worker, but binds
its servers to the port alone, which opens it on all addresses of the machine. No setting changes that, so a copy
replaces one class of Beam. In the copy, ``NettyServerBuilder.forAddress(address)`` takes the place of
``NettyServerBuilder.forPort(address.getPort())``. The copy is derived from the class that Flink ships, so nothing is
compiled.

Through py4j, a process that connects to Java can run any code there. A process that connects to Python can call the
objects that Python exposes. PyFlink binds both servers to loopback without a token, so every user of the machine could
connect.
"""

from __future__ import annotations

import secrets
import struct
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile

_OUTER = "org.apache.beam.sdk.fn.server.ServerFactory"
_CLASS = f"{_OUTER}$InetSocketAddressServerFactory"
_BUILDER = "NettyServerBuilder"

# Tags of class file constants (Java Virtual Machine Specification, 4.4), and the number of bytes after each, except
# Utf8.
_UTF8, _CLASS_TAG, _METHOD, _NAME_AND_TYPE = 1, 7, 10, 12
_BYTES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_DOUBLE = (5, 6)  # these take two indices

_ALOAD_1, _INVOKE_VIRTUAL, _INVOKE_STATIC, _NOP = b"\x2b", b"\xb6", b"\xb8", b"\x00"


class UnknownChannelsError(RuntimeError):
    """Error for an unexpected version of Beam's class; its servers then listen on all addresses."""


@cache
def bind_channels() -> None:
    """Bind Beam's servers in this Java process to loopback; call it before the first one starts.

    Raises
    ------
    UnknownChannelsError
        Beam's class differs from those that Flink 1.20 to 2.3 ship.
    """
    jvm = _jvm()
    outer = _outer(jvm)
    lookup = jvm.java.lang.invoke.MethodHandles
    lookup.privateLookupIn(outer, lookup.lookup()).defineClass(bound(_shipped(outer)))


def write_jar(path: Path) -> None:
    """Write a jar of the replaced class, which must precede Flink's own Python jar on the classpath.

    Raises
    ------
    UnknownChannelsError
        As ``bind_channels`` does.
    """
    content = bound(_shipped(_outer(_jvm())))
    with ZipFile(path, "w") as jar:
        jar.writestr(f"{_CLASS.replace('.', '/')}.class", content)


def bound(content: bytes) -> bytes:
    """Return the class file of Beam's class, patched so that servers bind to the given address.

    Raises
    ------
    UnknownChannelsError
        The class does not contain exactly one call of the expected form.
    """
    constants, end = _constants(content)
    names = {index: value for index, (tag, value) in constants.items() if tag == _UTF8}

    def method(owner: str, name: str) -> tuple[int, int, str]:
        """Return the index of a method, the index of its class, and its descriptor."""
        for index, (tag, value) in constants.items():
            if tag == _METHOD:
                of_class, of_type = struct.unpack(">HH", value)
                named, typed = struct.unpack(">HH", constants[of_type][1])
                (of_name,) = struct.unpack(">H", constants[of_class][1])
                if names[named] == name.encode() and names[of_name].endswith(f"/{owner}".encode()):
                    return index, of_class, names[typed].decode()
        raise UnknownChannelsError(f"{_CLASS} calls no {owner}.{name}")

    port, _, _ = method("InetSocketAddress", "getPort")
    by_port, builder, descriptor = method(_BUILDER, "forPort")
    call = _ALOAD_1 + _INVOKE_VIRTUAL + struct.pack(">H", port) + _INVOKE_STATIC + struct.pack(">H", by_port)
    if content.count(call, end) != 1 or not descriptor.startswith("(I)"):
        raise UnknownChannelsError(f"{_CLASS} does not bind to a port alone, once")
    (count,) = struct.unpack_from(">H", content, 8)
    added = (
        _text("forAddress")
        + _text(f"(Ljava/net/SocketAddress;){descriptor.removeprefix('(I)')}")
        + struct.pack(">BHH", _NAME_AND_TYPE, count, count + 1)
        + struct.pack(">BHH", _METHOD, builder, count + 2)
    )
    replaced = _ALOAD_1 + _INVOKE_STATIC + struct.pack(">H", count + 3) + _NOP * 3
    return content[:8] + struct.pack(">H", count + 4) + content[10:end] + added + content[end:].replace(call, replaced)


def _text(value: str) -> bytes:
    return struct.pack(">BH", _UTF8, len(value)) + value.encode()


def _constants(content: bytes) -> tuple[dict[int, tuple[int, bytes]], int]:
    """Return the tag and bytes of each constant of a class file by its index, and the offset behind them."""
    (count,) = struct.unpack_from(">H", content, 8)
    constants, index, at = {}, 1, 10
    while index < count:
        tag = content[at]
        begin, size = (at + 3, struct.unpack_from(">H", content, at + 1)[0]) if tag == _UTF8 else (at + 1, _BYTES[tag])
        constants[index] = tag, content[begin : begin + size]
        index += 2 if tag in _DOUBLE else 1
        at = begin + size
    return constants, at


def _jvm() -> Any:
    from pyflink.java_gateway import get_gateway

    return get_gateway().jvm


def _outer(jvm: Any) -> Any:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(_OUTER, False, loader)


def _shipped(outer: Any) -> bytes:
    stream = outer.getResourceAsStream(f"{_CLASS.rpartition('.')[2]}.class")
    if stream is None:
        raise UnknownChannelsError(f"there is no {_CLASS}")
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def require_token() -> None:
    """Make the gateway that PyFlink will create require a token of each connection, in both directions.

    Java accepts connections without a token until Python has connected, moments after Java listens.
    """
    import_module("pyflink.java_gateway").JavaGateway = _gateway_with_token  # type: ignore[attr-defined]


def _gateway_with_token(**parameters: Any) -> Any:
    from py4j.java_gateway import JavaGateway

    token = secrets.token_hex(32)
    parameters["callback_server_parameters"].auth_token = token
    gateway = JavaGateway(**parameters)
    server = gateway.java_gateway_server
    # PyFlink replaces the callback client by a copy that knows Python's port, and the copy keeps the token.
    for guarded in (server.getCallbackClient(), server):
        field = guarded.getClass().getDeclaredField("authToken")
        field.setAccessible(True)
        field.set(guarded, token)
    parameters["gateway_parameters"].auth_token = token
    return gateway
