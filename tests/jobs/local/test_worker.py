"""A Python worker of a local run is asked for by a small program, and where that cannot be, as PyFlink does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from crenel.jobs.local import worker_boot
from crenel.jobs.local.worker import fast_worker_startup
from tests.support.launch import ROOT

SETTINGS = {"parallelism.default": "1"}
BOOT = ("-m", "pyflink.fn_execution.beam.beam_boot", "--id=1-1", "--provision_endpoint=localhost:4711")


class Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):  # type: ignore[misc]
    """Starter of workers; ``error``: the reason for a failed start."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.error = ""

    def StartWorker(self, request: Any, context: object) -> Any:  # noqa: N802 - gRPC's
        self.requests.append(request)
        return beam_fn_api_pb2.StartWorkerResponse(error=self.error)


@pytest.fixture
def pool() -> Iterator[tuple[Pool, str]]:
    """Start the pool of workers, and return it with its address."""
    made = Pool()
    server = grpc.server(ThreadPoolExecutor(2))
    port = server.add_insecure_port("localhost:0")
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(made, server)  # type: ignore[no-untyped-call]
    server.start()
    yield made, f"localhost:{port}"
    server.stop(None)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="crenel-") as made:  # short, as a socket's path must be
        yield Path(made)


def run(program: str, *arguments: str, **variables: str) -> CompletedProcess[str]:
    """Start a worker as PyFlink's script does."""
    return subprocess.run(
        [program, *arguments], env=os.environ | variables, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_worker_is_asked_for_with_what_flink_told(pool: tuple[Pool, str], folder: Path) -> None:
    starter, address = pool
    with fast_worker_startup(SETTINGS, folder) as settings:
        assert settings.items() > SETTINGS.items()
        done = run(settings["python.executable"], *BOOT, PYTHON_LOOPBACK_SERVER_ADDRESS=address, WHERE="hére")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (request,) = starter.requests
    assert (request.worker_id, request.provision_endpoint.url) == ("1-1", "localhost:4711")
    assert request.params["WHERE"] == "hére"


def test_a_worker_that_does_not_start_is_told(pool: tuple[Pool, str], folder: Path) -> None:
    starter, address = pool
    starter.error = "Traceback:\n  there is no room\n"
    with fast_worker_startup(SETTINGS, folder) as settings:
        done = run(settings["python.executable"], *BOOT, PYTHON_LOOPBACK_SERVER_ADDRESS=address)
        gone = run(settings["python.executable"], *BOOT, PYTHON_LOOPBACK_SERVER_ADDRESS="localhost:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no room" in done.stderr
    assert gone.returncode == 1
    assert "the Python worker did not start" in gone.stderr


def test_all_else_is_run_by_python(folder: Path) -> None:
    program = "import sys; print(sys.executable, sys.argv[1:], sys.flags.isolated)"
    with fast_worker_startup(SETTINGS, folder) as settings:
        done = run(settings["python.executable"], "-c", program, "one word", PYTHON_LOOPBACK_SERVER_ADDRESS="x")
        # A worker that is a process of its own.
        own = run(settings["python.executable"], *BOOT[:2], "--id=")
    assert done.stdout == f"{sys.executable} ['one word'] 0\n"
    assert own.returncode == 1
    assert "No id provided." in own.stdout + own.stderr


def test_where_nobody_answers_it_is_what_pyflink_runs(folder: Path) -> None:
    done = run(sys.executable, "-I", "-S", worker_boot.__file__, str(folder / "nobody"), "-m", "platform", "--terse")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(sys.executable, "-m", "platform", "--terse").stdout


@pytest.mark.parametrize("name", ["with space", "x" * 100])
def test_a_folder_that_cannot_hold_it_changes_nothing(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    with fast_worker_startup(SETTINGS, folder / name) as settings:
        assert settings == SETTINGS
    assert list((folder / name).iterdir()) == []


def test_a_file_system_from_which_nothing_may_be_run_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # a test cannot mount one
    with fast_worker_startup(SETTINGS, folder) as settings:
        assert settings == SETTINGS


def test_a_python_that_the_configuration_names_is_used(folder: Path) -> None:
    own = {**SETTINGS, "python.executable": "/opt/python"}
    with fast_worker_startup(own, folder) as settings:
        assert settings == own


FAILING = """
import logging
from queue import Queue
from types import SimpleNamespace
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.sdk_worker import SdkHarness
from crenel.jobs.local.worker import keep_tracebacks_out_of_terminal
keep_tracebacks_out_of_terminal()
logging.getLogger().addHandler(logging.NullHandler())
harness = SimpleNamespace(_responses=Queue())
SdkHarness._execute(harness, lambda: int("4711-secret"), beam_fn_api_pb2.InstructionRequest(instruction_id="1"))
print("4711-secret" in harness._responses.get().error)
"""


def test_what_a_worker_fails_with_goes_to_flink_and_not_to_the_terminal() -> None:
    done = run(sys.executable, "-c", FAILING, PYTHONPATH=str(ROOT))
    assert (done.stdout, done.stderr) == ("True\n", "")


POOL = """
import os
import sys
from urllib.parse import unquote
from crenel.jobs.local.worker import keep_pool_private
keep_pool_private()
from pyflink.fn_execution.beam.beam_worker_pool_service import BeamFnLoopbackWorkerPoolServicer
addresses = {BeamFnLoopbackWorkerPoolServicer().start() for _ in range(2)}
print(*addresses)
for address in addresses:
    if address.startswith("unix:"):
        print(oct(os.stat(os.path.dirname(unquote(address.removeprefix("unix:")))).st_mode & 0o777))
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x", r"unix:\S+/pool\n0o700\n"),
        ("a b%20ß", r"unix:\S+/a%20b%2520%C3%9F/\S+/pool\n0o700\n"),
        ("x" * 100, r"127\.0\.0\.1:\d+\n"),
    ],
)
def test_only_this_user_reaches_the_pool_of_workers_or_this_machine_where_its_path_is_long(
    folder: Path, name: str, expected: str
) -> None:
    place = folder / name
    place.mkdir()
    done = run(sys.executable, "-c", POOL, TMPDIR=str(place), PYTHONPATH=str(ROOT))
    assert re.fullmatch(expected, done.stdout), done.stderr
    assert list(place.iterdir()) == []
