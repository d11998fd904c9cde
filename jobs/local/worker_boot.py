"""What Flink runs for a Python worker of a local run: it asks the process that has the job, which has all imported.

A program of its own, without anything of Crenel or of a package: ``python worker_boot.py SOCKET -m MODULE
--id=ID --provision_endpoint=ENDPOINT``. Where nobody answers at SOCKET, it becomes ``python -m MODULE ...``.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main(address: str, arguments: list[str]) -> int:
    """Ask for a worker, and wait until it has ended; 0 where it ended well."""
    given = dict(argument.removeprefix("--").split("=", 1) for argument in arguments if "=" in argument)
    asked = {
        "worker_id": given.get("id"),
        "provision_endpoint": given.get("provision_endpoint"),
        "params": dict(os.environ),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
            connection.sendall(json.dumps(asked).encode() + b"\n")
        except OSError:
            os.execv(sys.executable, [sys.executable, *arguments])
        with connection.makefile(encoding="utf-8") as answer:
            told = answer.read()
    if told != "ended\n":
        print(told or "the process that has the job has ended", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
