"""No process of a local run listens where another machine could connect, or shows a key in the list of processes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.launch import TIMEOUT, Host, environment
from tests.support.listening import CHANNELS, JOB, KEY, seen

TEXT = JOB
GATEWAY = """
import socket
from crenel.jobs.local.preload import start_java
start_java().join()
from py4j.java_gateway import GatewayParameters, JavaGateway
from pyflink.java_gateway import get_gateway
own = get_gateway()
print(own.jvm.java.lang.Integer.valueOf(7))
other = JavaGateway(gateway_parameters=GatewayParameters(port=own.gateway_parameters.port))
try:
    print(other.jvm.java.lang.System.getProperty("java.home"))
except Exception:
    print("Java refused")
with socket.create_connection((own.get_callback_server().get_listening_address(),
                               own.get_callback_server().get_listening_port())) as connection:
    connection.sendall(b"c\\np0\\nping\\ne\\n")
    connection.settimeout(30)
    try:
        print("Python refused" if not connection.recv(1) else "Python answered")
    except ConnectionResetError:
        print("Python refused")
"""


@pytest.mark.flink
def test_a_local_run_listens_on_loopback_alone(mini: Host, path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(mini.crenel, "run", path, mode="loopback", LISTENING_KEY=KEY)
        found, commands = seen([mini.process], run.done)
        done = run.result()
    assert done.returncode == 0, done.stderr
    assert len(found) > CHANNELS
    assert [socket for socket in found if not socket.is_loopback] == []
    assert [line for line in commands if KEY in line] == []


@pytest.mark.flink
def test_java_and_python_refuse_each_other_without_their_token() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GATEWAY], env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.stdout.splitlines()[-3:] == ["7", "Java refused", "Python refused"], done.stderr
