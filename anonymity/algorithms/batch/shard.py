"""Shard whose algorithm only chooses which buffered tuples are released together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Algorithm, Counters, Shard, ShardContext
from crenel.anonymity.algorithms.batch import procedures
from crenel.anonymity.algorithms.batch.buffered_shard import BufferedShard
from crenel.anonymity.algorithms.batch.procedures import BatchArrays
from crenel.anonymity.algorithms.batch.stored import ENTRIES, between, initial_snapshot, read
from crenel.anonymity.buffer.departure import Columns
from crenel.anonymity.buffer.release_buffer import empty_out
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.noise.release_noise import admit, with_slots
from crenel.anonymity.privacy_models.checks import SUBJECTS
from crenel.anonymity.privacy_models.lookup import with_numbers
from crenel.anonymity.privacy_models.tally import empty_counter, first_columns, most_values
from crenel.anonymity.space.domain import Boxes, boxes
from crenel.state.batch import BatchState
from crenel.state.block import BufferedTuples
from crenel.state.columns import NO_FURTHER
from crenel.state.shard import StoredShard


@dataclass(frozen=True)
class Choice:
    """Tuples to release and to suppress.

    Attributes
    ----------
    groups : groups to release, each as indices among the buffered tuples; each group satisfies the privacy models. An
        index that is repeated stands for further, synthetic records with the published values of its tuple
    suppressed : tuples to suppress, by index, and the position of the reason in ``Privacy.reasons``
    published : (groups,) published intervals and nodes of each group, which contain its members; nodes are numbered
        over all hierarchies. Intervals or nodes without columns stand for the minimal ones; None: both
    """

    groups: Sequence[NDArray[np.int64]] = ()
    suppressed: Sequence[tuple[int, int]] | NDArray[np.int64] = ()
    published: Boxes | None = None


def published_boxes(groups: int, nodes: NDArray[Any] | None = None) -> Boxes:
    """Return ``Choice.published`` with minimal intervals, and with these nodes, (groups, categorical), if any."""
    return Boxes(
        np.zeros((groups, 0)),
        np.zeros((groups, 0)),
        np.zeros((groups, 0), np.int32) if nodes is None else nodes.astype(np.int32),
    )


class BatchShard(BufferedShard):
    """In-memory state of one shard; ``choose`` is the algorithm.

    The cost of a step depends on the pushed block alone, unless ``choose`` reads ``waiting``.
    """

    _arrays: tuple[BufferedTuples, BatchArrays] | None = None  # of the tuples buffered at the last call of ``arrays``

    @abstractmethod
    def choose(self, watermark: int, *, ended: bool) -> Choice:
        """Choose tuples of ``waiting`` to release or suppress now; all of them once the input has ended.

        The shard repeats the call until no tuple is chosen.
        """

    def tuples_until_choice(self) -> int | None:
        """Return how many tuples, at least 1, may arrive before the next call of ``choose``; None: a whole block.

        An algorithm must override this method if its releases shall not depend on the division into blocks.
        """
        return None

    def admitted(self, tuples: BufferedTuples) -> BufferedTuples:
        """Return the tuples to buffer, of those that arrived; the others are gone, and counted by the algorithm."""
        return tuples

    def broken(self, members: NDArray[np.int64]) -> int | None:
        """Return why tuples may not be released together, a position in ``Privacy.reasons``; None where they may."""
        check = self.first_broken(members)
        return None if check == -1 else self.reason_of(check)

    def first_broken(self, members: NDArray[np.int64]) -> int:
        """Return the first check that tuples violate; -1: none, -2: they have fewer than k subjects."""
        return int(procedures.judge(self.arrays(), np.asarray(members, np.int64)))

    def reason_of(self, check: int) -> int:
        """Return the position in ``Privacy.reasons`` for a result of ``procedures.judge``."""
        return SUBJECTS if check < 0 else int(self._checks.reason[check])

    @property
    def next_deadline(self) -> int | None:
        return None

    @property
    def counters(self) -> Counters:
        return Counters(**self._counts())

    def _admit_and_release(
        self, coming: BufferedTuples, watermarks: NDArray[np.int64], watermark: int, *, ended: bool = False
    ) -> list[Releases]:
        parts, done = self._release_due(watermark, ended=ended), 0
        while done < len(coming):
            if len(watermarks):
                parts += self._release_due(int(watermarks[done]), ended=False)
            stop = self._until_due(watermarks, done, len(coming))
            self._admit(between(coming, done, stop))
            parts += self._release_due(int(watermarks[stop - 1]) if len(watermarks) else watermark, ended=False)
            done = stop
        return parts

    def _admit(self, arrived: BufferedTuples) -> None:
        tuples = self.admitted(arrived)
        self._buffer.add(tuples)
        self._state.next_position += len(arrived)
        self._observe(tuples)

    def _release_due(self, watermark: int, *, ended: bool) -> list[Releases]:
        parts = []
        while len(self._buffer):
            choice = self.choose(watermark, ended=ended)
            if not len(choice.groups) and not len(choice.suppressed):
                break
            parts.append(self._depart(choice))
        return parts

    def _until_due(self, watermarks: NDArray[np.int64], done: int, stop: int) -> int:
        """Return the end of the tuples, from ``done`` up to ``stop``, to admit before the next call of ``choose``."""
        choice_due, due = self.tuples_until_choice(), self.next_deadline
        if choice_due is not None:
            stop = min(done + choice_due, stop)
        if due is not None and len(watermarks):
            stop = min(max(int(np.searchsorted(watermarks, due)), done + 1), stop)
        return stop

    def _depart(self, choice: Choice) -> Releases:
        arrays, waiting = self.arrays(), self.waiting
        if len(choice.groups):
            ends = np.cumsum([len(members) for members in choice.groups])
            published = published_boxes(len(ends)) if choice.published is None else choice.published
            if ends[-1] > len(waiting):
                room, sensitive = int(ends[-1]), len(self.context.policy.sensitive)
                arrays = arrays._replace(out=empty_out(room, boxes(room, self.context.policy), sensitive))
            procedures.release_groups(arrays, np.concatenate(choice.groups).astype(np.int64), ends, published)
        if len(choice.suppressed):
            procedures.suppress_all(arrays, np.array(choice.suppressed, np.int64))
        return self._left(arrays, waiting)

    def arrays(self) -> BatchArrays:
        """Return the compiled procedures' view of all buffered tuples."""
        waiting = self.waiting
        if self._arrays is None or self._arrays[0] is not waiting:
            self._arrays = waiting, self._arrays_of(waiting)
        return self._arrays[1]

    def _arrays_of(self, waiting: BufferedTuples) -> BatchArrays:
        policy = self.context.policy
        count, first = len(waiting), first_columns(policy.widths)
        noise = with_slots(self._noise, count)
        admit(noise, np.arange(count, dtype=np.int32), waiting.members)
        value = np.full(waiting.sensitive.shape, -1, np.int32)
        lookup = with_numbers(self._checks.lookup, most_values(policy.widths, count))
        for a, (start, stop) in enumerate(pairwise(first.tolist())):
            of = waiting.sensitive[:, start:stop]
            present = of != NO_FURTHER
            codes, value[:, start:stop][present] = np.unique(of[present], return_inverse=True)
            procedures.note_numbers(lookup, a, codes)
        return BatchArrays(  # type: ignore[call-arg]  # mypy knows no further fields in a subclass of a NamedTuple
            now=self._state,
            config=self._config,
            checks=self._checks._replace(lookup=lookup),
            random=self._random,
            domain=self._domain,
            tuples=Columns(
                points=self._points(waiting),
                subject=np.zeros(count, np.uint64) if waiting.subject is None else waiting.subject,
                value=value,
                event_time=waiting.event_time,
                position=waiting.position,
            ),
            counter=empty_counter(policy.widths, count),
            out=empty_out(count, boxes(count, policy), len(policy.sensitive)),
            totals=self._totals,
            noise=noise,
        )


class BatchAlgorithm(Algorithm):
    """An algorithm whose shards are ``BatchShard``.

    Attributes
    ----------
    shard : class of the shards, or a function that makes one, from a ``ShardContext`` and a ``BatchSnapshot``
    """

    shard: ClassVar[Any]
    state: ClassVar = ("batch", BatchState)
    entries: ClassVar[tuple[str, ...]] = (*ENTRIES, SEEN)

    @classmethod
    def new(cls, context: ShardContext, number: int, key: bytes) -> Shard:
        return cls.shard(context, initial_snapshot(context, number, key))

    @classmethod
    def restored(cls, context: ShardContext, stored: StoredShard, where: str) -> Shard:
        return cls.shard(context, read(context, stored, where))
