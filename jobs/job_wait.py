"""Progress of ``flink run`` while it waits for a job: each restart, and its reason."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyflink.common import JobClient
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.util.exceptions import JavaException

from crenel.jobs.causes import JobSetup
from crenel.jobs.failure import why_failed, without_passwords
from crenel.jobs.local.rest import Rest, WatermarkWatch

_POLL = 0.5  # seconds between two checks for the end of the job
_EVERY = 4  # number of these checks per check for restarts
_FOR_GOOD = ("FAILING", "FAILED")


def wait(client: JobClient, setup: JobSetup, counted_by: str | None) -> None:
    """Wait for the end of a job, and print its restarts and warnings on stderr; raise if the job failed.

    ``counted_by``: a field that depends on event time; None without one
    """
    ended = client.get_job_execution_result()
    address = _rest_address()
    rest = None if address is None else Rest(address, str(client.get_job_id()))
    restarts = None if rest is None else Restarts(rest, setup)
    watch = None if rest is None else WatermarkWatch(rest, counted_by)
    looks = 0
    while not ended.done():
        if restarts is not None and watch is not None and looks % _EVERY == 0:
            for line in (*restarts.new_restarts(), *(f"warning: {text}" for text in watch.warnings())):
                print(without_passwords(line), file=sys.stderr, flush=True)
        looks += 1
        time.sleep(_POLL)
    ended.result()


class Restarts:
    """Reader of restarts and their reasons over the REST interface; reports each restart once."""

    def __init__(self, rest: Rest, setup: JobSetup) -> None:
        self._rest = rest
        self._setup = setup
        self._restarts = 0
        self._last = -1  # milliseconds

    def new_restarts(self) -> Iterator[str]:
        """Yield a line for each restart since the last call: its number, the failed task, and the reason.

        The lines hold no records. A failure that ends the job is no restart. Yield nothing if the cluster does not
        answer.
        """
        with suppress(OSError, ValueError, KeyError, TypeError):
            if self._rest.get("")["state"] in _FOR_GOOD:
                return
            failures = self._rest.get("/exceptions")["exceptionHistory"]["entries"]
            for failure in sorted(failures, key=lambda failure: int(failure["timestamp"])):
                if int(failure["timestamp"]) > self._last:
                    self._last = int(failure["timestamp"])
                    self._restarts += 1
                    why = why_failed(str(failure["stacktrace"]), self._setup, str(failure.get("exceptionName") or ""))
                    yield f"restart {self._restarts}: {_failed(failure)}{why}"


def _failed(failure: dict[str, Any]) -> str:
    # A chain of operators is shown as its first, without the attempt number; empty if the job failed without a task.
    name = str(failure.get("taskName") or "").partition(" - execution")[0]
    first, _, rest = name.partition(" -> ")
    task = " ".join((first, *name.rpartition(" ")[2:])) if rest else first
    return f"task {task} failed: " if task else ""


def _rest_address() -> str | None:
    """Return the address of the cluster's REST interface, as Flink's own client finds it; None without one."""
    client = get_gateway().jvm.org.apache.flink.client
    with suppress(Py4JError, JavaException):
        environment = StreamExecutionEnvironment.get_execution_environment()
        configuration = environment._j_stream_execution_environment.getConfiguration()
        factory = client.deployment.DefaultClusterClientServiceLoader().getClusterClientFactory(configuration)
        with closing(factory.createClusterDescriptor(configuration)) as descriptor:
            found = descriptor.retrieve(factory.getClusterId(configuration)).getClusterClient()
            with closing(found):
                return str(found.getWebInterfaceURL())
    return None
