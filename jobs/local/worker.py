"""Python workers of a local run with a quicker start than PyFlink's.

In a mini-cluster a worker is a thread of the process that runs the job. PyFlink has Flink run a program that requests
the thread, and waits for its end. That program imports all of Apache Beam, which takes 1.5 s and 150 MB. Here Flink
runs ``crenel.jobs.local.worker_boot`` instead, which forwards its arguments, and this process makes the request.
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
    """Yield Flink ``settings`` that make workers start sooner, for the duration of the block.

    The settings are unchanged if they name a Python executable, or if ``folder``, which is private to this process,
    cannot hold a socket or an executable.
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
    if not os.access(program, os.X_OK):  # a file system without execute permission
        yield {**settings}
        return
    with socketserver.ThreadingUnixStreamServer(str(address), _WorkerHandler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.1,), name="crenel-workers", daemon=True).start()
        try:
            yield {**settings, _EXECUTABLE: str(program)}
        finally:
            server.shutdown()


def keep_pool_private() -> None:
    """Make PyFlink's worker pool, which executes any code it receives, accept connections of this user alone.

    PyFlink opens it on all addresses of the machine, and another one for each statement.
    """
    from pyflink.fn_execution.beam.beam_worker_pool_service import BeamFnLoopbackWorkerPoolServicer

    BeamFnLoopbackWorkerPoolServicer.start = _pool_address


def keep_tracebacks_out_of_terminal() -> None:
    """Make Beam's workers print no traceback of an instruction that failed: its text can hold values of records.

    Flink gets the traceback all the same, and logs it.
    """
    from apache_beam.runners.worker import sdk_worker

    sdk_worker.print = lambda *_, **__: None


_pools: list[str] = []


def _pool_address(servicer: Any) -> str:
    """Return the address of this process's only pool: a private socket, or a loopback port for long paths."""
    if not _pools:
        import grpc  # type: ignore[import-untyped]
        from apache_beam.portability.api import beam_fn_api_pb2_grpc
        from apache_beam.utils import thread_pool_executor

        path = str(folder_until_exit("crenel-pool-") / "pool")
        server = grpc.server(thread_pool_executor.shared_unbounded_instance())
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(servicer, server)
        is_short = len(os.fsencode(path)) <= _LONGEST
        address = f"unix:{quote(path)}"
        port = server.add_insecure_port(address if is_short else "127.0.0.1:0")
        server.start()
        atexit.register(server.stop, 1)
        _pools.append(address if is_short else f"127.0.0.1:{port}")
    return _pools[0]


class _WorkerHandler(socketserver.StreamRequestHandler):
    """Handler of one worker, from its request until its end."""

    def handle(self) -> None:
        try:
            result = _run_worker(json.loads(self.rfile.readline()))
        except Exception as error:  # Flink reports it as the reason of the job's failure
            result = f"the Python worker did not start: {error}"
        with suppress(OSError):  # Flink has ended the requesting program
            self.wfile.write(f"{result}\n".encode())


def _run_worker(request_data: Mapping[str, Any]) -> str:
    # These modules are loaded already.
    import grpc
    from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

    request = beam_fn_api_pb2.StartWorkerRequest(
        worker_id=request_data["worker_id"],
        provision_endpoint=endpoints_pb2.ApiServiceDescriptor(url=request_data["provision_endpoint"]),
        params=request_data["params"],
    )
    with grpc.insecure_channel(request_data["params"][_LOOPBACK]) as channel:
        ended = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel).StartWorker(request)
    return str(ended.error) or "ended"
