"""Client for a running job's metrics over Flink's REST interface."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from typing import Any

_TIMEOUT = 2.0  # seconds: a cluster that is busy starting or ending answers late, or never
_COUNTED = ("tuples_in", "rejected_")
_ENDED = ("FINISHED", "CANCELED", "FAILED")


class Rest:
    """Reader of the anonymizer's metrics.

    Parameters
    ----------
    address : of the REST interface, as ``http://localhost:8081``
    job : id of the job, as Flink prints it
    """

    def __init__(self, address: str, job: str) -> None:
        self._base = f"{address}/jobs/{job}"
        self._metrics: str | None = None

    def rows_read(self) -> int | None:
        """Return the tuples admitted and rows rejected so far; None where the cluster does not answer."""
        try:
            if self._metrics is None:
                self._metrics = self._find()
            if self._metrics is None:
                return None
            return int(sum(metric["sum"] for metric in self.get(self._metrics)))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def get(self, path: str) -> Any:
        """Return the answer of the REST interface for the job at ``path``; raise OSError where it does not answer."""
        with urllib.request.urlopen(self._base + path, timeout=_TIMEOUT) as answer:
            return json.load(answer)

    def cancel(self, seconds: float) -> None:
        """Cancel the job, and wait for its end, at most for ``seconds``."""
        until = time.monotonic() + seconds
        with suppress(OSError, ValueError, KeyError):  # a mini-cluster ends with its job
            request = urllib.request.Request(f"{self._base}?mode=cancel", method="PATCH")
            with urllib.request.urlopen(request, timeout=_TIMEOUT):
                pass
            while time.monotonic() < until and self.get("")["state"] not in _ENDED:
                time.sleep(0.1)

    def _find(self) -> str | None:
        """Return the path of Crenel's counters, which appear when the operator has started."""
        for vertex in self.get("")["vertices"]:
            path = f"/vertices/{vertex['id']}/subtasks/metrics"
            names = [metric["id"] for metric in self.get(path)]
            ours = [
                name for name in names if name.rpartition(".crenel.")[2].startswith(_COUNTED) and ".crenel." in name
            ]
            if ours:
                return f"{path}?agg=sum&get={urllib.parse.quote(','.join(ours))}"
        return None
