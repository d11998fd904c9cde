"""Sockets on which processes listen, as Linux lists them in ``/proc``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

from jobs.local.descendants import descendants

_LISTEN = "0A"
_INODE = re.compile(r"socket:\[(\d+)\]")


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
    owners = {
        inode: process for first in processes for process in (first, *descendants(first)) for inode in _inodes(process)
    }
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state, *others = line.split()
            inode = others[5]
            if state == _LISTEN and inode in owners:
                address, port = local.split(":")
                found.add(Listening(owners[inode], _address(address), int(port, 16)))
    return found


def _inodes(process: int) -> Iterator[str]:
    folder = f"/proc/{process}/fd"
    with suppress(OSError):  # the process has ended
        for name in os.listdir(folder):
            with suppress(OSError):  # the file is closed again
                if inode := _INODE.fullmatch(os.readlink(f"{folder}/{name}")):
                    yield inode[1]


def _address(text: str) -> IPv4Address | IPv6Address:
    """Return the address of a text of hexadecimal digits, in words of four bytes, of which the lowest comes first."""
    content = bytes.fromhex(text)
    return ip_address(b"".join(content[at : at + 4][::-1] for at in range(0, len(content), 4)))
