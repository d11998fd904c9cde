"""What a running job says of itself over Flink's REST interface."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import Any

_TIMEOUT = 2.0  # seconds: a cluster that is busy starting or ending answers late, or never
_COUNTED = ("tuples_in", "rejected_")


class Rest:
    """Reads the anonymiser's metrics.

    Parameters
    ----------
    port : of the REST interface on this machine
    job : id of the job, as Flink prints it
    """

    def __init__(self, port: int, job: str) -> None:
        self._base = f"http://localhost:{port}/jobs/{job}"
        self._metrics: str | None = None

    def rows_read(self) -> int | None:
        """Tuples let in and rows rejected so far; None where the cluster does not tell (yet, or any more)."""
        try:
            if self._metrics is None:
                self._metrics = self._find()
            if self._metrics is None:
                return None
            return int(sum(metric["sum"] for metric in self.get(self._metrics)))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def get(self, path: str) -> Any:
        """What the REST interface says of the job at ``path``; raises OSError where it does not answer."""
        with urllib.request.urlopen(self._base + path, timeout=_TIMEOUT) as answer:
            return json.load(answer)

    def _find(self) -> str | None:
        """The path of our counters; they appear when the operator has started."""
        for vertex in self.get("")["vertices"]:
            path = f"/vertices/{vertex['id']}/subtasks/metrics"
            names = [metric["id"] for metric in self.get(path)]
            ours = [
                name for name in names if name.rpartition(".crenel.")[2].startswith(_COUNTED) and ".crenel." in name
            ]
            if ours:
                return f"{path}?agg=sum&get={urllib.parse.quote(','.join(ours))}"
        return None
