"""Attacker with all values at all times, and the published rows of each person, who intersects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.policy import Policy
from crenel.state.block import NO_TIME
from tests.support.checker import diversity
from tests.support.source import IDENTITY, Advance, Forget, Push, Row, Step
from tests.support.space import Box, Space

_GENERALIZED = KINDS.index("generalized")


class Observer:
    """Sees one shard's stream and output, a tuple a step.

    Parameters
    ----------
    horizon : event time after which rows are not put together any more; None: they always are

    Attributes
    ----------
    behind : of each person who was published, all persons whom the rows can be of
    """

    def __init__(self, policy: Policy, horizon: int | None) -> None:
        self._space, self._horizon = Space(policy), horizon
        self._identity = policy.members.index(IDENTITY)
        self._sensitive = len(policy.sensitive)
        self._row: dict[Any, Row] = {}
        self._forgotten: Counter[Any] = Counter()
        self._latest: dict[Any, Box] = {}
        self._newest: dict[Any, int] = {}
        self._watermark = NO_TIME
        self._published: dict[Any, list[set[Any]]] = {}
        self.behind: dict[Any, set[Any]] = {}

    def observe(self, step: Step, out: Releases) -> None:
        """Observe the rows and the releases of a step."""
        if isinstance(step, Forget):
            self._forgotten.update(step.subjects)
        if isinstance(step, Push | Advance):
            self._watermark = max(self._watermark, step.watermark)
        for row in step.rows if isinstance(step, Push) else ():
            self._add(row)
        for i, kind in enumerate(out.kind.tolist()):
            if kind == _GENERALIZED:
                continue
            box = Box(tuple(out.lower[i].tolist()), tuple(out.upper[i].tolist()), tuple(out.node[i].tolist()))
            may_be = {person for person, point in self._latest.items() if self._space.contains(box, point)}
            for row in self._rows(out, i):
                person = self._person(row)
                self.behind[person] = self.behind.get(person, may_be) & may_be
                published = self._published.setdefault(person, [set() for _ in range(self._sensitive)])
                for values, value in zip(published, row.published, strict=False):
                    values.add(value)

    def _add(self, row: Row) -> None:
        person = self._person(row)
        newest = self._newest.get(person)
        if self._horizon is not None and newest is not None and newest + self._horizon <= self._watermark:
            self.behind.pop(person, None)
            newest = None
        self._row[row.published[self._identity]] = row
        self._latest[person] = self._space.point(row)
        self._newest[person] = row.event_time if newest is None else max(newest, row.event_time)

    def _person(self, row: Row) -> tuple[Any, int]:
        """Treat a person who returns after erasure as another person; earlier releases stay known."""
        return row.subject, self._forgotten[row.subject]

    def _rows(self, out: Releases, release: int) -> Iterator[Row]:
        for identity in out.members[self._identity][out.offsets[release] : out.offsets[release + 1]]:
            yield self._row[identity]

    @property
    def fewest(self) -> int | None:
        """Fewest persons who can be behind the rows of one person; None where nothing was published."""
        return min((len(persons) for persons in self.behind.values()), default=None)

    def diversity(self) -> int | None:
        """Return the least diversity of all published values of the persons who can be behind one person's rows."""
        found = [
            diversity([published[a] for person in persons if (published := self._published.get(person)) is not None])
            for persons in self.behind.values()
            for a in range(self._sensitive)
        ]
        return min(found, default=None)
