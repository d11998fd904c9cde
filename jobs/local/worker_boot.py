"""Program that Flink runs for a Python worker of a local run, which delegates to the process with the job.

It is self-contained, without imports of Crenel or other packages: ``python worker_boot.py SOCKET -m MODULE --id=ID
--provision_endpoint=ENDPOINT``. If SOCKET does not answer, it becomes ``python -m MODULE ...``.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main(address: str, arguments: list[str]) -> int:
    """Request a worker, and wait for its end; return 0 if it ended without error."""
    options = dict(argument.removeprefix("--").split("=", 1) for argument in arguments if "=" in argument)
    request = {
        "worker_id": options.get("id"),
        "provision_endpoint": options.get("provision_endpoint"),
        "params": dict(os.environ),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            os.execv(sys.executable, [sys.executable, *arguments])
        with connection.makefile(encoding="utf-8") as answer:
            result = answer.read()
    if result != "ended\n":
        print(result or "the process that has the job has ended", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
