"""Sockets on which processes listen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

import psutil

from crenel.jobs.local.stop import descendants
from tests.support.processes import command

KEY = "5d41402abc4b2a76b9719d911017c592"
CHANNELS = 6
"""Servers of Beam for each Python worker."""

JOB = """
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
"""A configuration of a job that takes five seconds and needs ``LISTENING_KEY``."""


class Listening(NamedTuple):
    """A TCP socket that waits for connections."""

    process: int
    address: IPv4Address | IPv6Address
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can connect."""
        mapped = getattr(self.address, "ipv4_mapped", None)
        return (mapped or self.address).is_loopback


def listening(processes: Iterable[int]) -> set[Listening]:
    """Return the TCP sockets on which these processes, and the ones that they started, listen now."""
    return {found for first in processes for process in (first, *descendants(first)) for found in _of(process)}


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


def _of(process: int) -> Iterator[Listening]:
    with suppress(psutil.Error):  # the process has ended
        for connection in psutil.Process(process).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                yield Listening(process, ip_address(connection.laddr.ip), connection.laddr.port)
