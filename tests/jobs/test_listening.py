"""No process of a job listens where another machine could connect, and none shows a key in the list of processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.local.descendants import descendants
from tests.support.cluster import Cluster, job_id
from tests.support.launch import TIMEOUT, Host, environment
from tests.support.listening import Listening, listening
from tests.support.processes import command

KEY = "5d41402abc4b2a76b9719d911017c592"
CHANNELS = 6
"""Servers of Beam for each Python worker."""

TEXT = """
policy: {subject: person, quasi_identifiers: {age: {type: numeric, domain: [0, 99]}}}
privacy: {k: 5}
castle: {delay: {tuples: 100}}
subject_key: ${LISTENING_KEY}
source:
  ddl: |
    CREATE TEMPORARY TABLE source (person INT, age INT) WITH (
      'connector' = 'datagen', 'rows-per-second' = '400', 'number-of-rows' = '2000',
      'fields.age.min' = '0', 'fields.age.max' = '99')
sinks: {released: {connector: blackhole}}
accept_duplicates: true
"""

GATEWAY = """
import socket
from jobs.local.ahead import start_java
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


@pytest.mark.cluster("mini")
def test_a_local_run_listens_on_loopback_alone(mini: Host, path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(mini.crenel, "run", path, mode="loopback", LISTENING_KEY=KEY)
        found, commands = seen([mini.process], run.done)
        done = run.result()
    assert done.returncode == 0, done.stderr
    assert len(found) > CHANNELS
    assert [socket for socket in found if not socket.is_loopback] == []
    assert [line for line in commands if KEY in line] == []


@pytest.mark.cluster("standalone")
def test_a_cluster_of_one_machine_listens_on_loopback_alone_but_for_its_metrics(cluster: Cluster, path: Path) -> None:
    submitted = cluster.ask("anonymize", "--config", path, LISTENING_KEY=KEY)
    assert submitted.returncode == 0, submitted.stderr
    job = job_id(submitted)
    found, commands = seen(cluster.processes, lambda: cluster.state(job) in ("FINISHED", "FAILED"))
    cluster.wait_for_end(job)
    assert len(found) > CHANNELS
    # The reporter for Prometheus has no setting for its address: the table of ports in docs/operations.md.
    others = [socket for socket in found if not socket.is_loopback]
    assert [socket for socket in others if socket.port not in cluster.reporters] == []
    assert others
    assert [line for line in commands if KEY in line] == []


@pytest.mark.cluster
def test_java_and_python_refuse_each_other_without_their_token() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GATEWAY], env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.stdout.splitlines()[-3:] == ["7", "Java refused", "Python refused"], done.stderr


def seen(processes: Iterable[int], is_over: Callable[[], bool]) -> tuple[set[Listening], set[str]]:
    """Return what these processes listen on, once Beam's channels are there and until the end, and all command lines.

    Flink tries out which port is free before a job, on all addresses, and accepts no connection there.
    """
    found: set[Listening] = set()
    commands: set[str] = set()
    processes = list(processes)
    before = {socket.port for socket in listening(processes)}
    while not is_over():
        commands |= {command(pid) for first in processes for pid in (first, *descendants(first))}
        now = listening(processes)
        if len({socket.port for socket in now} - before) >= CHANNELS:
            found |= now
        time.sleep(0.1)
    return found, commands
