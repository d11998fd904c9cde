"""Client for a running job's metrics over Flink's REST interface, and the warning that follows from them."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_TIMEOUT = 2.0  # seconds: a cluster that is busy starting or ending answers late, or never
_COUNTED = ("tuples_in", "rejected_")
WAITING = ("readers_without_watermark", "event_time_standstill_s")
"""Metrics of a wait for event time: the number of readers, and its seconds."""

LONG = 20
"""Seconds without a watermark from which a running job has a warning."""

_EVERY = 5.0
"""Seconds between two looks at a running job."""

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
        self._metrics: dict[tuple[str, ...], str] = {}

    def rows_read(self) -> int | None:
        """Return the tuples admitted and rows rejected so far; None where the cluster does not answer."""
        found = self._read(_COUNTED, "sum")
        return int(sum(found.values())) if found else None

    def without_watermark(self) -> tuple[int, int]:
        """Return the number of readers without a watermark, and the seconds for which records wait for event time."""
        found = self._read(WAITING, "max")
        readers, seconds = (int(found.get(name, 0)) for name in WAITING)
        return readers, seconds

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

    def _read(self, names: tuple[str, ...], over_tasks: str) -> dict[str, float]:
        """Return metrics by name, ``sum`` or ``max`` over the tasks; empty where the cluster does not answer."""
        try:
            if names not in self._metrics:
                self._metrics[names] = self._find(names, over_tasks)
            found = self.get(self._metrics[names])
            return {metric["id"].rpartition(".")[2]: metric[over_tasks] for metric in found}
        except (OSError, ValueError, LookupError, TypeError):
            return {}

    def _find(self, names: tuple[str, ...], over_tasks: str) -> str:
        """Return the path of metrics of Crenel; raise ``LookupError`` before the operator has started."""
        for vertex in self.get("")["vertices"]:
            path = f"/vertices/{vertex['id']}/subtasks/metrics"
            known = [metric["id"] for metric in self.get(path)]
            ours = [name for name in known if name.rpartition(".crenel.")[2].startswith(names) and ".crenel." in name]
            if ours:
                return f"{path}?agg={over_tasks}&get={urllib.parse.quote(','.join(ours))}"
        raise LookupError(f"no metric of {', '.join(names)}")


class WatermarkWatch:
    """Watch over a running job: whether its source brings watermarks, where a setting counts event time.

    Parameters
    ----------
    rest : of the job
    counted_by : a field that depends on event time; None without one, and nothing is to warn of
    """

    def __init__(self, rest: Rest, counted_by: str | None) -> None:
        self._rest, self._counted_by, self._next = rest, counted_by, time.monotonic() + LONG

    def warnings(self) -> Iterator[str]:
        """Yield a warning if no watermark comes, once."""
        if self._counted_by is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        readers, seconds = self._rest.without_watermark()
        if readers and seconds >= LONG:
            yield no_watermark(readers, seconds, self._counted_by)
            self._counted_by = None


def no_watermark(readers: int, seconds: float, counted_by: str) -> str:
    """Return the warning of readers of a source from which no watermark has come."""
    return (
        f"source.ddl: no watermark came from {readers} parallel reader{'s' * (readers > 1)} of the source in "
        f"{seconds:,.0f} s, so no record was due by {counted_by}. A partition, or a reader, without records holds back "
        "all others: give 'scan.watermark.idle-timeout' = '1 min', and no more readers than partitions. If all are "
        "quiet, event time stands still: docs/how-to/monitor.md#quiet-streams"
    )
