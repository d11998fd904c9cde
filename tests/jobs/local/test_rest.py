"""Answers of a running job, and of a cluster that does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from crenel.jobs.local.rest import Rest

COUNTERS = ("castle.crenel.tuples_in", "castle.crenel.rejected_missing", "castle.crenel.released", "numRecordsIn")


@contextmanager
def cluster(answers: dict[str, Any]) -> Iterator[str]:
    """Return a REST interface that answers these paths, 404 to any other; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("localhost", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def job(counts: dict[str, float]) -> dict[str, Any]:
    wanted = "castle.crenel.tuples_in,castle.crenel.rejected_missing"
    return {
        "/jobs/j": {"vertices": [{"id": "source"}, {"id": "castle"}]},
        "/jobs/j/vertices/source/subtasks/metrics": [{"id": "numRecordsIn"}],
        "/jobs/j/vertices/castle/subtasks/metrics": [{"id": name} for name in COUNTERS],
        f"/jobs/j/vertices/castle/subtasks/metrics?agg=sum&get={wanted.replace(',', '%2C')}": [
            {"id": name, "sum": counts[name]} for name in wanted.split(",")
        ],
    }


def test_rows_read_are_tuples_let_in_and_rejected() -> None:
    with cluster(job({"castle.crenel.tuples_in": 70.0, "castle.crenel.rejected_missing": 3.0})) as address:
        assert Rest(address, "j").rows_read() == 73


def test_a_job_that_has_not_started_yet_tells_nothing() -> None:
    answers = {"/jobs/j": {"vertices": [{"id": "castle"}]}, "/jobs/j/vertices/castle/subtasks/metrics": []}
    with cluster(answers) as address:
        rest = Rest(address, "j")
        assert rest.rows_read() is None
        answers.update(job({"castle.crenel.tuples_in": 1.0, "castle.crenel.rejected_missing": 0.0}))
        assert rest.rows_read() == 1


def test_a_cluster_that_is_gone_or_answers_otherwise_tells_nothing() -> None:
    with cluster({"/jobs/j": {"errors": ["not found"]}}) as address:
        assert Rest(address, "j").rows_read() is None
        assert Rest(address, "other").rows_read() is None
    assert Rest(address, "j").rows_read() is None
