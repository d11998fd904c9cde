"""One process for many jobs: ``python -m tests.support.host SOCKET``, or that under ``flink run``.

It holds a Java gateway and runs one command after another, each as a process of its own would have run it, but for the
ten seconds that the starts of Java and Python take.
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.connection import Client, Listener
from pathlib import Path
from subprocess import CompletedProcess


def ask(place: Path, program: str, /, *arguments: str | Path, **variables: str) -> CompletedProcess[str]:
    """Have the host at ``place`` run ``crenel``, ``anonymize`` or ``paced`` with ``variables`` in the environment.

    The variable ``CRENEL_HOST_FOLDER`` is the folder in which Python runs meanwhile; Java stays in its own.
    """
    with Client(str(place), "AF_UNIX") as host:
        host.send_bytes(json.dumps([program, [str(argument) for argument in arguments], variables]).encode())
        answer = json.loads(host.recv_bytes())
    return CompletedProcess([program, *map(str, arguments)], *answer)


def answer_requests(place: Path) -> None:
    """Answer for as long as this process lives."""
    with Listener(str(place), "AF_UNIX") as listener:
        while True:
            with listener.accept() as asker:
                program, arguments, variables = json.loads(asker.recv_bytes())
                asker.send_bytes(json.dumps(_run(_program(program), arguments, variables)).encode())


def _program(name: str) -> Callable[[Sequence[str]], object]:
    if name == "crenel":
        from crenel.jobs.cli.app import app

        return lambda arguments: app(arguments, prog_name=name)
    if name == "paced":
        from tests.support.paced import main

        return main
    from crenel.jobs import anonymize

    return anonymize.main


def _run(
    program: Callable[[Sequence[str]], object], arguments: Sequence[str], variables: Mapping[str, str]
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    before, folder = dict(os.environ), Path.cwd()
    os.environ.update(variables)
    os.chdir(variables.get("CRENEL_HOST_FOLDER", folder))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = _exit_code(program, arguments)
    finally:
        os.chdir(folder)
        for name in os.environ.keys() & variables:
            del os.environ[name]
            if name in before:
                os.environ[name] = before[name]
    return code, out.getvalue(), err.getvalue()


def _exit_code(program: Callable[[Sequence[str]], object], arguments: Sequence[str]) -> int:
    try:
        ended = program(arguments)
    except SystemExit as end:
        ended = end.code
    except BaseException:
        traceback.print_exc()
        return 1
    return ended if isinstance(ended, int) else 0


if __name__ == "__main__":
    answer_requests(Path(sys.argv[1]))
