"""What about a stream makes its figures surprise: noted beside each shard, for the summary of a run.

It is no part of the state: after a restore it begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.watermarks import tuple_watermarks
from crenel.state.block import NO_TIME, Block

_OUTERMOST = 4
"""The range without its outermost values lacks one less than these, at each end."""

_ENOUGH = 100
"""Values that a range is judged by, at least."""


class StreamDiagnostics:
    """What was seen of one shard's stream since it was loaded.

    Parameters
    ----------
    terms : numeric attributes without a domain are watched, unless there is noise: of those before it nothing is told
    delay : how long tuples are to wait at most, milliseconds of event time; None: no such bound
    """

    def __init__(self, terms: ShardContext, delay: int | None) -> None:
        watched = [] if terms.sampling_and_noise is not None else terms.policy.numeric
        self._columns = {attribute.name: i for i, attribute in enumerate(watched) if attribute.domain is None}
        self._outermost = {name: np.empty(0) for name in self._columns}
        self._delay = delay
        self._values = 0
        self._newest = NO_TIME
        self._overdue = 0

    def came(self, block: Block) -> None:
        """Look at the tuples of a block."""
        if len(block):
            self._newest = max(self._newest, int(block.event_time.max()))
            self._values += len(block)
        for name, column in self._columns.items():
            self._outermost[name] = _ends(np.concatenate((self._outermost[name], block.numeric[:, column])))

    def left(self, releases: Releases, watermark: int | None = None, block: Block | None = None) -> None:
        """Look at what left as event time had come to a watermark; None: the input has ended.

        ``block``: what came then; who left did so as soon as it was due by what had passed when one of its tuples came.
        """
        if self._delay is None or not len(releases):
            return
        times = releases.event_time
        now: Any = self._newest if watermark is None else watermark
        if len(marks := tuple_watermarks(block, now)):
            now = marks[np.minimum(np.searchsorted(marks, times + self._delay), len(marks) - 1)]
        overdue = (times != NO_TIME) & (times < now - 2 * self._delay)
        self._overdue += int(releases.tuples[overdue].sum())

    def found(self) -> Iterator[tuple[str, float]]:
        """What was noted, as (name, amount).

        ``overdue``: tuples that left after more than twice their delay. ``stretch.NAME``: how many times as wide a few
        outermost values make the range of that attribute.
        """
        yield "overdue", self._overdue
        for name, values in self._outermost.items():
            if self._values >= _ENOUGH:
                inner = values[-_OUTERMOST] - values[_OUTERMOST - 1]
                if inner > 0:
                    yield f"stretch.{name}", float((values[-1] - values[0]) / inner)


def _ends(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least and the largest of some values, sorted."""
    if len(values) <= 2 * _OUTERMOST:
        return np.sort(values)
    parted = np.partition(values, (_OUTERMOST - 1, len(values) - _OUTERMOST))
    return np.sort(np.concatenate((parted[:_OUTERMOST], parted[-_OUTERMOST:])))
