"""Token authentication between Python and the Java of a client.

Through py4j, a process that connects to Java can run any code there. A process that connects to Python can call the
objects that Python exposes. PyFlink binds both servers to loopback without a token, so every user of the machine could
connect.
"""

from __future__ import annotations

import secrets
from importlib import import_module
from typing import Any


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
