"""Answers of a running job, and of a cluster that does not answer."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from crenel.jobs.local.rest import Rest, WatermarkWatch

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


def test_a_source_without_watermarks_causes_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("nearest.crenel.readers_without_watermark", "nearest.crenel.event_time_standstill_s")
    path = "/jobs/j/vertices/nearest/subtasks/metrics"
    amounts = dict.fromkeys(names, 0.0)
    answers = {"/jobs/j": {"vertices": [{"id": "nearest"}]}, path: [{"id": name} for name in names]}
    clock = itertools.count(step=60.0)
    monkeypatch.setattr("crenel.jobs.local.rest.time.monotonic", lambda: next(clock))
    with cluster(answers) as address:
        watch, other = (WatermarkWatch(Rest(address, "j"), field) for field in ("nearest.delay.event_time", None))

        def warned() -> list[str]:
            answers[f"{path}?agg=max&get={'%2C'.join(names)}"] = [
                {"id": name, "max": amount} for name, amount in amounts.items()
            ]
            return [*watch.warnings(), *other.warnings()]

        assert warned() == []
        for short in ((2.0, 19.0), (0.0, 100.0)):  # event time passed, and stands still: another matter
            amounts |= dict(zip(names, short, strict=True))
            assert warned() == []
        amounts |= dict(zip(names, (2.0, 25.0), strict=True))
        (warning,) = warned()
        assert warning.startswith("source.ddl: no watermark came from 2 parallel readers of the source in 25 s")
        assert "no record was due by nearest.delay.event_time" in warning
        assert warned() == []
