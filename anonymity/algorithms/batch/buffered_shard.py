"""Shard that buffers tuples as columns, until its algorithm releases or suppresses them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Shard, ShardContext, Step
from crenel.anonymity.algorithms.batch import procedures
from crenel.anonymity.algorithms.batch.procedures import BatchArrays
from crenel.anonymity.algorithms.batch.stored import BatchSnapshot, BufferedBlocks, buffered_of
from crenel.anonymity.buffer.members import listed
from crenel.anonymity.buffer.published_forms import with_forms
from crenel.anonymity.buffer.queue import NO_WATERMARKS, tuple_watermarks
from crenel.anonymity.buffer.release_buffer import empty_totals
from crenel.anonymity.buffer.releases import Leaving, Releases, collect
from crenel.anonymity.buffer.slots import mask_of_subjects
from crenel.anonymity.buffer.stored_frequencies import StoredSeen
from crenel.anonymity.buffer.stored_shard import LifetimeCounters
from crenel.anonymity.compiled.arrays import record
from crenel.anonymity.compiled.random import key_bytes, random_stream
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.noise.release_noise import within
from crenel.anonymity.privacy_models.checks import Checks, checks_of
from crenel.anonymity.privacy_models.value_frequencies import remove_value
from crenel.anonymity.space.domain import Boxes, domain, node_offsets, scales
from crenel.state.batch import BatchState
from crenel.state.block import NO_TIME, Block, BufferedTuples
from crenel.state.shard import Changes


class BufferedShard(Shard):
    """In-memory state of one shard that buffers tuples as columns, in order of arrival.

    It serves algorithms that collect a window and release most of it at once: admission, erasure, releases and stored
    state. A subclass decides which tuples leave.

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
        self._domain.scale[:] = scales(state.lower, state.upper, len(context.policy.attributes))
        self._totals = empty_totals(len(context.privacy.reasons), len(KINDS))
        self._history = LifetimeCounters(self._totals, context.privacy, state)
        self._state = record("next_position next_release")
        self._state.next_position, self._state.next_release = state.numbers.tolist()
        self._config = record("k by_name")
        self._config.k, self._config.by_name = context.privacy.k, context.policy.subject is not None
        self._checks = self._checks_of(context)
        self._seen = StoredSeen(self._checks.lookup.seen, snapshot.seen, f"shard {self.number}")
        self._noise = within(context.policy, context.privacy, 0)

    state_class: ClassVar[type[BatchState]] = BatchState
    """Class of the stored state; a subclass has the fields of ``own_state``."""

    def own_state(self) -> dict[str, Any]:
        """Return the fields that the algorithm adds to ``BatchState``."""
        return {}

    def changed_entries(self) -> dict[str, dict[int, bytes | None]]:
        """Return entries of the algorithm's own kinds that changed since the last step; None for those to delete."""
        return {}

    def _checks_of(self, context: ShardContext) -> Checks:
        """Return the checks of the privacy models."""
        return checks_of(context.policy, context.privacy)

    @classmethod
    def problems(cls, context: ShardContext) -> Iterator[str]:
        """Yield conflicts within the context."""
        return iter(())

    @property
    def waiting(self) -> BufferedTuples:
        """All buffered tuples, in order of arrival."""
        return self._buffer.all

    def push(self, block: Block, watermark: int = NO_TIME) -> Step:
        coming = buffered_of(block, int(self._state.next_position))
        return self._step(self._admit_and_release(coming, tuple_watermarks(block, watermark), watermark))

    def advance(self, watermark: int) -> Step:
        return self._step(self._admit_and_release(self._buffer.nothing, NO_WATERMARKS, watermark))

    def finish(self) -> Step:
        return self._step(self._admit_and_release(self._buffer.nothing, NO_WATERMARKS, NO_TIME, ended=True))

    def forget(self, subjects: NDArray[np.uint64]) -> Step:
        leaves = mask_of_subjects(self.context.policy, self.waiting.subject, subjects)
        remove_value(self._checks.lookup.seen, self.waiting.sensitive[leaves], self.context.privacy.k)
        self._buffer.keep(~leaves)
        self._totals.sums.forgotten += int(np.count_nonzero(leaves))
        return self._step([])

    def buffered(self) -> pa.RecordBatch:
        return self.waiting.members

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

    @abstractmethod
    def _admit_and_release(
        self, coming: BufferedTuples, watermarks: NDArray[np.int64], watermark: int, *, ended: bool = False
    ) -> list[Releases]:
        """Admit tuples, in order, and release those that are due, as ``crenel.anonymity.buffer.queue`` does."""

    @abstractmethod
    def _arrays_of(self, waiting: BufferedTuples) -> BatchArrays:
        """Return the compiled procedures' view of some tuples, without a release; a tuple's slot is its index."""

    def _observe(self, tuples: BufferedTuples) -> None:
        """Widen the observed ranges by tuples that came, and count their sensitive values."""
        procedures.observe_all(self._domain, self._points(tuples))
        procedures.see_all(self._checks.lookup.seen, tuples.sensitive)

    def _step(self, parts: list[Releases]) -> Step:
        releases = Releases.joined(parts, self._no_releases)
        if self.context.remembers:
            return Step(releases, self._changes())
        self.changed_entries()  # a shard that stores nothing forgets as one that does
        return Step(releases, None)

    def _left(self, arrays: BatchArrays, waiting: BufferedTuples) -> Releases:
        """Remove the tuples in ``arrays.out`` from the buffer, and return them as releases."""
        found, stays, out = self._collected(arrays, waiting), np.ones(len(waiting), np.bool_), arrays.out
        members, suppressed = int(out.filled.members), int(out.filled.suppressed)
        stays[out.members[:members]] = stays[out.suppressed[:suppressed]] = False
        synthetic = members + suppressed - int(np.count_nonzero(~stays))
        if synthetic:
            self.counted["synthetic"] = self.counted.get("synthetic", 0) + synthetic
        self._buffer.keep(stays)
        return found

    def _collected(self, arrays: BatchArrays, waiting: BufferedTuples) -> Releases:
        out, points = arrays.out, arrays.tuples.points
        released, withheld = out.members[: out.filled.members], out.suppressed[: out.filled.suppressed]
        policy, k = self.context.policy, self.context.privacy.k
        leaving = Leaving(
            released,
            withheld,
            waiting.position,
            waiting.event_time,
            None if policy.pseudonym is None else waiting.subject,
        )

        def published(slots: NDArray[np.int32]) -> tuple[list[Any], ...]:
            if not len(slots):  # Arrow would take a quarter of the time of such a step
                return tuple([] for _ in waiting.members.schema)
            return tuple(map(listed, waiting.members.take(pa.array(slots)).columns))

        found = collect(out, int(self._state.next_release), leaving, published, self._offsets, arrays.noise)
        subject = None if policy.subject is None else waiting.subject
        return with_forms(found, policy, released, points.lower, points.node, self._offsets, k=k, subject=subject)

    @cached_property
    def _no_releases(self) -> Releases:
        nothing = self._buffer.nothing
        return self._collected(self._arrays_of(nothing), nothing)

    def _points(self, tuples: BufferedTuples) -> Boxes:
        numeric = tuples.numeric + 0.0  # -0.0 is 0.0
        return Boxes(numeric, numeric, (tuples.categorical + self._offsets).astype(np.int32))

    def _changes(self) -> Changes:
        entries = {
            "blocks": self._buffer.changes(),
            **self._seen.changes(self._checks.lookup.seen),
            **self.changed_entries(),
        }
        self._inventory.update(entries)
        state = self.state_class(
            **self._history.state(self.context, self.number, self._domain, self._random, self._inventory),
            numbers=np.array([self._state.next_position, self._state.next_release], np.int64),
            counted=self.counted,
            **self.own_state(),
        )
        return Changes(state.to_bytes(), entries)
