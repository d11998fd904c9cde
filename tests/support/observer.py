"""Attacker with all values at all times, and the published rows of each person, who intersects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.policy import Policy
from tests.support.checker import diversity
from tests.support.source import IDENTITY, Forget, Push, Row, Step
from tests.support.space import Box, Space

_GENERALIZED = KINDS.index("generalized")


class Observer:
    """Sees one shard's stream and output, a tuple a step.

    A person who returns after erasure is the same person to the attacker, whose rows from before are not put together
    with those from after it.

    Parameters
    ----------
    horizon : rows of a person are put together if no gap between their event times is longer; None: all are
    """

    def __init__(self, policy: Policy, horizon: int | None) -> None:
        self._space, self._horizon = Space(policy), horizon
        self._identity = policy.members.index(IDENTITY)
        self._sensitive = len(policy.sensitive)
        self._row: dict[Any, Row] = {}
        self._forgotten: Counter[Any] = Counter()
        self._latest: dict[Any, Box] = {}
        self._values: dict[Any, list[set[Any]]] = {}
        self._candidates: dict[Any, list[tuple[int, dict[Any, int]]]] = {}  # of each published row, with its event time

    def observe(self, step: Step, out: Releases) -> None:
        """Observe the rows and the releases of a step."""
        if isinstance(step, Forget):
            self._forgotten.update(step.subjects)
        for row in step.rows if isinstance(step, Push) else ():
            self._row[row.published[self._identity]] = row
            self._latest[row.subject] = self._space.point(row)
        for i, kind in enumerate(out.kind.tolist()):
            if kind == _GENERALIZED:
                continue
            box = Box(tuple(out.lower[i].tolist()), tuple(out.upper[i].tolist()), tuple(out.node[i].tolist()))
            inside = [subject for subject, point in self._latest.items() if self._space.contains(box, point)]
            for row in self._rows(out, i):
                person = row.subject, self._forgotten[row.subject]
                found = {subject: self._forgotten[subject] for subject in inside}
                self._candidates.setdefault(person, []).append((row.event_time, found))
                published = self._values.setdefault(person, [set() for _ in range(self._sensitive)])
                for values, value in zip(published, row.published, strict=False):
                    values.add(value)

    def _rows(self, out: Releases, release: int) -> Iterator[Row]:
        for identity in out.members[self._identity][out.offsets[release] : out.offsets[release + 1]]:
            yield self._row[identity]

    def behind(self) -> Iterator[dict[Any, int]]:
        """Yield who can be behind rows of one person, with how often each had been forgotten at the first row."""
        for rows in self._candidates.values():
            rows = sorted(rows, key=lambda row: row[0])
            newest, found = rows[0]
            for time, candidates in rows[1:]:
                if self._horizon is not None and time - newest > self._horizon:
                    yield found
                    found = candidates
                found = {subject: min(n, candidates[subject]) for subject, n in found.items() if subject in candidates}
                newest = time
            yield found

    @property
    def fewest(self) -> int | None:
        """Fewest persons who can be behind the rows of one person; None where nothing was published."""
        return min(map(len, self.behind()), default=None)

    def diversity(self) -> int | None:
        """Return the least diversity of all published values of the persons who can be behind one person's rows."""
        found = [
            diversity([self._values[person][a] for person in persons.items() if person in self._values])
            for persons in self.behind()
            for a in range(self._sensitive)
        ]
        return min(found, default=None)
