"""Shard whose algorithm only chooses which buffered tuples are released together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters, Shard, ShardContext, Step
from crenel.anonymity.algorithms.batch import procedures
from crenel.anonymity.algorithms.batch.procedures import BatchArrays
from crenel.anonymity.algorithms.batch.stored import BatchSnapshot, BufferedBlocks, between, buffered_of, no_tuples
from crenel.anonymity.buffer.departure import Columns
from crenel.anonymity.buffer.members import listed
from crenel.anonymity.buffer.published_forms import with_forms
from crenel.anonymity.buffer.queue import tuple_watermarks
from crenel.anonymity.buffer.release_buffer import empty_out, empty_totals
from crenel.anonymity.buffer.releases import Leaving, Releases, noise_of, with_noise
from crenel.anonymity.buffer.slots import mask_of_subjects
from crenel.anonymity.buffer.stored_frequencies import StoredSeen
from crenel.anonymity.buffer.stored_shard import LifetimeCounters
from crenel.anonymity.compiled.arrays import record
from crenel.anonymity.compiled.random import key_bytes, random_stream
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.noise.release_noise import admit, with_slots, within
from crenel.anonymity.privacy_models.checks import SUBJECTS, checks_of
from crenel.anonymity.privacy_models.lookup import with_numbers
from crenel.anonymity.privacy_models.tally import empty_counter, first_columns, most_values
from crenel.anonymity.privacy_models.value_frequencies import remove_value
from crenel.anonymity.space.domain import Boxes, boxes, domain, node_offsets, scales
from crenel.state.batch import BatchState
from crenel.state.block import NO_TIME, Block, BufferedTuples
from crenel.state.columns import NO_FURTHER
from crenel.state.shard import Changes


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


class BatchShard(Shard):
    """In-memory state of one shard; ``choose`` is the algorithm.

    The buffer is kept as columns in order of arrival, for algorithms that collect a window and release most of it at
    once. The cost of a step depends on the pushed block alone, unless ``choose`` reads ``waiting``.

    Parameters
    ----------
    context : context of the shard
    snapshot : stored state

    Attributes
    ----------
    counted : counters of the algorithm itself, by name; part of the stored state
    """

    def __init__(self, context: ShardContext, snapshot: BatchSnapshot) -> None:
        for problem in self.problems(context):
            raise PolicyError(problem)
        state = snapshot.state
        self.context, self.number = context, state.shard
        self.counted = dict(state.counted)
        self._offsets = node_offsets(context.policy)
        self._buffer = BufferedBlocks(context, snapshot.blocks)
        self._inventory = snapshot.inventory
        self._random = random_stream(key_bytes(state.key), state.key_used)
        self._domain = domain(context.policy)
        self._domain.lower[:], self._domain.upper[:] = state.lower, state.upper
        self._domain.scale[:] = scales(state.lower, state.upper, len(context.policy.quasi_identifiers))
        self._totals = empty_totals(len(context.privacy.reasons), len(KINDS))
        self._history = LifetimeCounters(self._totals, context.privacy, state)
        self._state = record("next_position next_release")
        self._state.next_position, self._state.next_release = state.numbers.tolist()
        self._config = record("k by_name")
        self._config.k, self._config.by_name = context.privacy.k, context.policy.subject is not None
        self._checks = checks_of(context.policy, context.privacy)
        self._seen = StoredSeen(self._checks.lookup.seen, snapshot.seen, f"shard {self.number}")
        self._noise = within(context.policy, context.privacy, 0)
        self._arrays: BatchArrays | None = None

    def changed_entries(self) -> dict[str, dict[int, bytes | None]]:
        """Return entries of the algorithm's own kinds that changed since the last call; None for those to delete."""
        return {}

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

    @classmethod
    def problems(cls, context: ShardContext) -> Iterator[str]:
        """Yield conflicts within the context."""
        return iter(())

    @property
    def waiting(self) -> BufferedTuples:
        """All buffered tuples, in order of arrival."""
        return self._buffer.all

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

    def push(self, block: Block, watermark: int = NO_TIME) -> Step:
        parts, watermarks = self._release_due(watermark, ended=False), tuple_watermarks(block, watermark)
        coming, done = buffered_of(block, int(self._state.next_position)), 0
        while done < len(coming):
            if len(watermarks):
                parts += self._release_due(int(watermarks[done]), ended=False)
            stop = self._until_due(watermarks, done, len(coming))
            self._admit(between(coming, done, stop))
            parts += self._release_due(int(watermarks[stop - 1]) if len(watermarks) else watermark, ended=False)
            done = stop
        return self._step(parts)

    def advance(self, watermark: int) -> Step:
        return self._step(self._release_due(watermark, ended=False))

    def finish(self) -> Step:
        return self._step(self._release_due(NO_TIME, ended=True))

    def forget(self, subjects: NDArray[np.uint64]) -> Step:
        leaves = mask_of_subjects(self.context.policy, self.waiting.subject, subjects)
        remove_value(self._checks.lookup.seen, self.waiting.sensitive[leaves], self.context.privacy.k)
        self._buffer.keep(~leaves)
        self._arrays = None
        self._totals.sums.forgotten += int(np.count_nonzero(leaves))
        return self._step([])

    def buffered(self) -> pa.RecordBatch:
        return self.waiting.members

    @property
    def next_deadline(self) -> int | None:
        return None

    @property
    def counters(self) -> Counters:
        return Counters(**self._counts())

    @property
    def random_key(self) -> bytes:
        return key_bytes(self._random.key)

    def _counts(self) -> dict[str, Any]:
        came = int(self._state.next_position)
        return {
            **self._history.counted(),
            "tuples_in": came,
            "sampled_out": 0,
            "synthetic": self.counted.get("synthetic", 0),
            "buffered": len(self._buffer),
            "oldest_waiting": came - int(self._buffer.first.position[0]) if len(self._buffer) else 0,
        }

    def _until_due(self, watermarks: NDArray[np.int64], done: int, stop: int) -> int:
        """Return the end of the tuples, from ``done`` up to ``stop``, to admit before the next call of ``choose``."""
        choice_due, due = self.tuples_until_choice(), self.next_deadline
        if choice_due is not None:
            stop = min(done + choice_due, stop)
        if due is not None and len(watermarks):
            stop = min(max(int(np.searchsorted(watermarks, due)), done + 1), stop)
        return stop

    def admitted(self, tuples: BufferedTuples) -> BufferedTuples:
        """Return the tuples to buffer, of those that arrived; the others are gone, and counted by the algorithm."""
        return tuples

    def _admit(self, arrived: BufferedTuples) -> None:
        tuples = self.admitted(arrived)
        self._buffer.add(tuples)
        self._state.next_position += len(arrived)
        self._arrays = None
        procedures.observe_all(self._domain, self._points(tuples))
        procedures.see_all(self._checks.lookup.seen, tuples.sensitive)

    def _release_due(self, watermark: int, *, ended: bool) -> list[Releases]:
        parts = []
        while len(self._buffer):
            choice = self.choose(watermark, ended=ended)
            if not len(choice.groups) and not len(choice.suppressed):
                break
            parts.append(self._depart(choice))
        return parts

    def _step(self, parts: list[Releases]) -> Step:
        return Step(Releases.joined(parts, self._no_releases), self._changes())

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
        found = self._collected(arrays, waiting)
        stays = np.ones(len(waiting), np.bool_)
        stays[arrays.out.members[: arrays.out.filled.members]] = False
        stays[arrays.out.suppressed[: arrays.out.filled.suppressed]] = False
        synthetic = int(arrays.out.filled.members + arrays.out.filled.suppressed - np.count_nonzero(~stays))
        if synthetic:
            self.counted["synthetic"] = self.counted.get("synthetic", 0) + synthetic
        self._buffer.keep(stays)
        self._arrays = None
        return found

    def _collected(self, arrays: BatchArrays, waiting: BufferedTuples) -> Releases:
        out = arrays.out
        releases, withheld = int(out.filled.releases), out.suppressed[: out.filled.suppressed]
        members = waiting.members.take(pa.array(out.members[: out.filled.members]))
        following = int(self._state.next_release)
        offsets = np.concatenate([np.zeros(1, np.int64), out.end[:releases]])
        released = out.members[: out.filled.members]
        subject = None if self.context.policy.pseudonym is None else waiting.subject
        found = Releases(
            release_id=np.arange(following - releases, following),
            kind=out.kind[:releases],
            subjects=out.subjects[:releases],
            tuples=np.diff(offsets),
            diversity=out.diversity[:releases],
            loss=out.loss[:releases],
            event_time=out.event_time[:releases],
            lower=out.box.lower[:releases],
            upper=out.box.upper[:releases],
            node=out.box.node[:releases] - self._offsets,
            offsets=offsets,
            members=_lists(members),
            **noise_of(arrays.noise, released, offsets),
            suppressed_reason=out.reason[: len(withheld)],
            suppressed_position=waiting.position[withheld],
            suppressed_event_time=waiting.event_time[withheld],
            **Leaving(released, withheld, waiting.position, waiting.event_time, subject).whose,
            listed=(),
            suppressed_members=_lists(waiting.members.take(pa.array(withheld))),
        )
        points = arrays.tuples.points
        policy, k = self.context.policy, self.context.privacy.k
        subject = None if policy.subject is None else waiting.subject
        found = with_forms(found, policy, released, points.lower, points.node, self._offsets, k=k, subject=subject)
        return with_noise(found, arrays.noise, released)

    @cached_property
    def _no_releases(self) -> Releases:
        nothing = no_tuples(self.context)
        return self._collected(self._arrays_of(nothing), nothing)

    def _points(self, tuples: BufferedTuples) -> Boxes:
        numeric = tuples.numeric + 0.0  # -0.0 is 0.0
        return Boxes(numeric, numeric, (tuples.categorical + self._offsets).astype(np.int32))

    def arrays(self) -> BatchArrays:
        """Return the compiled procedures' view of all buffered tuples."""
        if self._arrays is None:
            self._arrays = self._arrays_of(self.waiting)
        return self._arrays

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

    def _changes(self) -> Changes:
        entries = {
            "blocks": self._buffer.changes(),
            **self._seen.changes(self._checks.lookup.seen),
            **self.changed_entries(),
        }
        self._inventory.update(entries)
        state = BatchState(
            **self._history.state(self.context, self.number, self._domain, self._random, self._inventory),
            numbers=np.array([self._state.next_position, self._state.next_release], np.int64),
            counted=self.counted,
        )
        return Changes(state.to_bytes(), entries)


def _lists(members: pa.RecordBatch) -> tuple[list[Any], ...]:
    """Return published values as ``Releases.members``."""
    return tuple(map(listed, members.columns))
