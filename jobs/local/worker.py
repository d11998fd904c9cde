"""A Python worker of a local run, sooner than PyFlink starts one.

In a mini-cluster a worker is a thread of the process that has the job. PyFlink has Flink run a program that asks for
the thread, and waits for its end: it imports all of Apache Beam for that, which takes 1.5 s and 150 MB. Here Flink runs
``crenel.jobs.local.worker_boot``, which hands over what it was told, and the process asks itself.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import socketserver
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

from crenel.jobs.local import worker_boot
from crenel.jobs.local.stop import folder_until_exit

_EXECUTABLE = "python.executable"
_BOOT = "pyflink.fn_execution.beam.beam_boot"
_LOOPBACK = "PYTHON_LOOPBACK_SERVER_ADDRESS"  # set by PyFlink where workers are threads of this process
_LONGEST = 100  # bytes of a socket's path; systems differ from 103 to 107


@contextmanager
def fast_worker_startup(settings: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """``settings`` of Flink with which workers start sooner, for as long as the block lasts.

    They are the same where these name a Python of their own, or where ``folder``, which is this process's own, cannot
    hold a socket or what Flink may run.
    """
    program, address = folder / "python", folder / "workers"
    # PyFlink's own script does not quote the path.
    if _EXECUTABLE in settings or len(os.fsencode(address)) > _LONGEST or re.search(r"\s", str(program)):
        yield {**settings}
        return
    python, boot = shlex.quote(sys.executable), shlex.quote(str(Path(worker_boot.__file__).absolute()))
    program.write_text(
        f'#!/bin/sh\nif [ "$2" = {_BOOT} ] && [ -n "${_LOOPBACK}" ]; then\n'
        f'  exec {python} -I -S {boot} {shlex.quote(str(address))} "$@"\nfi\nexec {python} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o700)
    if not os.access(program, os.X_OK):  # a file system from which nothing may be run
        yield {**settings}
        return
    with socketserver.ThreadingUnixStreamServer(str(address), _Asked) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.1,), name="crenel-workers", daemon=True).start()
        try:
            yield {**settings, _EXECUTABLE: str(program)}
        finally:
            server.shutdown()


def keep_pool_private() -> None:
    """Have PyFlink's pool of workers, which executes what it is sent, listen where only this user connects.

    PyFlink starts it on all addresses of the machine, and another one for each statement.
    """
    from pyflink.fn_execution.beam.beam_worker_pool_service import BeamFnLoopbackWorkerPoolServicer

    BeamFnLoopbackWorkerPoolServicer.start = _pool_address


_pools: list[str] = []


def _pool_address(servicer: Any) -> str:
    """Address of this process's one pool: a socket in a private folder, or a port of loopback if its path is long."""
    if not _pools:
        import grpc  # type: ignore[import-untyped]
        from apache_beam.portability.api import beam_fn_api_pb2_grpc
        from apache_beam.utils import thread_pool_executor

        path = str(folder_until_exit("crenel-pool-") / "pool")
        server = grpc.server(thread_pool_executor.shared_unbounded_instance())  # type: ignore[no-untyped-call]
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
        is_short = len(os.fsencode(path)) <= _LONGEST
        address = f"unix:{quote(path)}"
        port = server.add_insecure_port(address if is_short else "127.0.0.1:0")
        server.start()
        atexit.register(server.stop, 1)
        _pools.append(address if is_short else f"127.0.0.1:{port}")
    return _pools[0]


class _Asked(socketserver.StreamRequestHandler):
    """One worker: from when it is asked for until it has ended."""

    def handle(self) -> None:
        try:
            told = _work(json.loads(self.rfile.readline()))
        except Exception as error:  # Flink tells it as the reason of the job's failure
            told = f"the Python worker did not start: {error}"
        with suppress(OSError):  # Flink has ended who asked
            self.wfile.write(f"{told}\n".encode())


def _work(asked: Mapping[str, Any]) -> str:
    # All of it is imported by now.
    import grpc
    from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

    request = beam_fn_api_pb2.StartWorkerRequest(
        worker_id=asked["worker_id"],
        provision_endpoint=endpoints_pb2.ApiServiceDescriptor(url=asked["provision_endpoint"]),
        params=asked["params"],
    )
    with grpc.insecure_channel(asked["params"][_LOOPBACK]) as channel:
        ended = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel).StartWorker(request)  # type: ignore[no-untyped-call]
    return str(ended.error) or "ended"
