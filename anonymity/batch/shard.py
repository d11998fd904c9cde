"""A shard of which an algorithm says no more than which of the tuples that wait leave together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anonymity.algorithm import Counters, Shard, Step, Terms
from anonymity.batch import procedures
from anonymity.batch.procedures import BatchArrays
from anonymity.compiled.arrays import record
from anonymity.compiled.random import random_stream
from anonymity.fingerprint import require_same
from anonymity.policy import KINDS, PolicyError
from anonymity.promise.checks import SUBJECTS, checks_of
from anonymity.promise.tally import empty_counter
from anonymity.release import Releases
from anonymity.space.domain import Boxes, boxes, domain, node_offsets, scales
from anonymity.tuples.leaving import empty_out, empty_totals
from anonymity.tuples.well_formed import require, require_tuples
from state.batch import BatchState, Held
from state.block import NO_TIME, Block
from state.codec import readable
from state.stored import Changes, Inventory, Stored, require_complete

ENTRIES = ("blocks",)


@dataclass(frozen=True)
class Choice:
    """What leaves.

    Attributes
    ----------
    groups : tuples that leave together, each group by indices among all that waits; each keeps the promises
    suppressed : tuples that leave unpublished, by index, and the position of the reason in ``Privacy.reasons``
    """

    groups: Sequence[NDArray[np.int64]] = ()
    suppressed: Sequence[tuple[int, int]] = ()


class BatchShard(Shard):
    """The live form of one shard; ``choose`` is the algorithm.

    All that waits is kept as columns in order of arrival and stored as one entry, which suits algorithms that collect
    a window and let most of it go at once.

    Parameters
    ----------
    terms : what it is held to
    state, held : what is stored of it; ``held`` is None where nothing waits
    """

    def __init__(self, terms: Terms, state: BatchState, held: Held | None = None) -> None:
        for problem in self.problems(terms):
            raise PolicyError(problem)
        self.terms, self.number = terms, state.shard
        self._offsets = node_offsets(terms.policy)
        self._inventory = Inventory.of({"blocks": {} if held is None else {0: held.to_bytes()}})
        self._random = random_stream(state.key.astype("<u4").tobytes(), state.key_used)
        self._domain = domain(terms.policy)
        self._domain.lower[:], self._domain.upper[:] = state.lower, state.upper
        self._domain.scale[:] = scales(state.lower, state.upper, len(terms.policy.quasi_identifiers))
        self._totals = empty_totals(len(terms.privacy.reasons), len(KINDS))
        self._restore_totals(state)
        self._now = record("next_position next_release")
        self._now.next_position, self._now.next_release = state.numbers.tolist()
        self._of = record("k by_name")
        self._of.k, self._of.by_name = terms.privacy.k, terms.policy.subject is not None
        self._checks = checks_of(terms.policy, terms.privacy)
        self.waiting = held or _nothing(terms)

    @abstractmethod
    def choose(self, watermark: int, *, ended: bool) -> Choice:
        """Which of ``waiting`` leave now; asked again until nothing does. All must leave once the input has ended."""

    @classmethod
    def problems(cls, terms: Terms) -> Iterator[str]:
        """What in the terms does not go together."""
        return iter(())

    def broken(self, members: NDArray[np.int64]) -> int | None:
        """Why some tuples may not leave together, as a position in ``Privacy.reasons``; None where they may."""
        check = int(procedures.judge(self._arrays(), np.asarray(members, np.int64)))
        if check == -1:
            return None
        return SUBJECTS if check < 0 else int(self._checks.reason[check])

    def push(self, block: Block, watermark: int = NO_TIME) -> Step:
        first = len(self.waiting)
        position = np.arange(self._now.next_position, self._now.next_position + len(block))
        self._now.next_position += len(block)
        self.waiting = self.waiting.joined(Held(position=position, **block.chosen(np.ones(len(block), np.bool_))))
        procedures.observe_all(self._domain, self._points(), first)
        return self._step(watermark, ended=False)

    def advance(self, watermark: int) -> Step:
        return self._step(watermark, ended=False)

    def finish(self) -> Step:
        return self._step(NO_TIME, ended=True)

    @property
    def next_deadline(self) -> int | None:
        return None

    @property
    def counters(self) -> Counters:
        totals, waiting, came = self._totals, self.waiting, int(self._now.next_position)
        return Counters(
            tuples_in=came,
            sampled_out=0,
            released=int(totals.sums.released),
            suppressed=dict(zip(self.terms.privacy.reasons, totals.suppressed.tolist(), strict=True)),
            releases=dict(zip(KINDS, totals.kinds.tolist(), strict=True)),
            loss_sum=float(totals.sums.loss),
            buffered=len(waiting),
            oldest_waiting=came - int(waiting.position[0]) if len(waiting) else 0,
            longest_delay=int(totals.sums.longest),
            delays=totals.delays.copy(),
        )

    def _step(self, watermark: int, *, ended: bool) -> Step:
        parts = []
        while len(self.waiting):
            choice = self.choose(watermark, ended=ended)
            if not choice.groups and not choice.suppressed:
                break
            parts.append(self._leave(choice))
        return Step(Releases.joined(parts, self._nothing_left()), self._changes())

    def _leave(self, choice: Choice) -> Releases:
        arrays = self._arrays()
        for members in choice.groups:
            procedures.release(arrays, np.asarray(members, np.int64))
        for member, reason in choice.suppressed:
            procedures.suppress(arrays, member, reason)
        found = self._collected(arrays)
        stays = np.ones(len(self.waiting), np.bool_)
        stays[arrays.out.members[: arrays.out.filled.members]] = False
        stays[arrays.out.suppressed[: arrays.out.filled.suppressed]] = False
        self.waiting = self.waiting.part(stays)
        return found

    def _collected(self, arrays: BatchArrays) -> Releases:
        out, waiting = arrays.out, self.waiting
        releases, withheld = int(out.filled.releases), out.suppressed[: out.filled.suppressed]
        members = waiting.members.take(pa.array(out.members[: out.filled.members]))
        following = int(self._now.next_release)
        offsets = np.concatenate([np.zeros(1, np.int64), out.end[:releases]])
        return Releases(
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
            members=tuple(column.to_pylist() for column in members.columns),
            suppressed_reason=out.reason[: len(withheld)],
            suppressed_position=waiting.position[withheld],
            suppressed_event_time=waiting.event_time[withheld],
        )

    def _nothing_left(self) -> Releases:
        return self._collected(self._arrays())

    def _points(self) -> Boxes:
        numeric = self.waiting.numeric + 0.0
        return Boxes(numeric, numeric, (self.waiting.categorical + self._offsets).astype(np.int32))

    def _arrays(self) -> BatchArrays:
        waiting, policy = self.waiting, self.terms.policy
        count, sensitive = len(waiting), len(policy.sensitive)
        value = np.zeros((count, sensitive), np.int32)
        for a in range(sensitive):
            value[:, a] = np.unique(waiting.sensitive[:, a], return_inverse=True)[1]
        return BatchArrays(
            now=self._now,
            of=self._of,
            checks=self._checks,
            random=self._random,
            domain=self._domain,
            points=self._points(),
            subject=np.zeros(count, np.uint64) if waiting.subject is None else waiting.subject.copy(),
            event_time=waiting.event_time.copy(),
            position=waiting.position.copy(),
            value=value,
            counter=empty_counter(sensitive, count),
            out=empty_out(count, boxes(count, policy), sensitive),
            totals=self._totals,
        )

    def _restore_totals(self, state: BatchState) -> None:
        totals = self._totals
        totals.sums.released, totals.sums.longest, totals.sums.loss = state.released, state.longest, state.loss
        for i, reason in enumerate(self.terms.privacy.reasons):
            totals.suppressed[i] = state.suppressed.get(reason, 0)
        totals.kinds[:] = state.kinds
        totals.delays[state.delays[:, 0]] = state.delays[:, 1]

    def _changes(self) -> Changes:
        blocks: dict[int, bytes | None] = {0: self.waiting.to_bytes() if len(self.waiting) else None}
        self._inventory.update({"blocks": blocks})
        buckets = np.flatnonzero(self._totals.delays)
        state = BatchState(
            shard=self.number,
            fingerprint=dict(self.terms.fingerprint),
            numbers=np.array([self._now.next_position, self._now.next_release], np.int64),
            lower=self._domain.lower,
            upper=self._domain.upper,
            key=self._random.key.astype(np.uint64),
            key_used=int(self._random.used[0]),
            released=int(self._totals.sums.released),
            longest=int(self._totals.sums.longest),
            loss=float(self._totals.sums.loss),
            suppressed=self.counters.suppressed,
            kinds=self._totals.kinds,
            delays=np.stack([buckets, self._totals.delays[buckets]], axis=1),
            entries=self._inventory.told(),
        )
        return Changes(state.to_bytes(), {"blocks": blocks})


def begun(terms: Terms, number: int, key: bytes) -> BatchState:
    """A shard before its first tuple; ``key``: the 32 bytes of its random stream."""
    space = domain(terms.policy)
    return BatchState(
        shard=number,
        fingerprint=dict(terms.fingerprint),
        numbers=np.zeros(2, np.int64),
        lower=space.lower,
        upper=space.upper,
        key=np.frombuffer(key, "<u4").astype(np.uint64),
        key_used=0,
        released=0,
        longest=0,
        loss=0.0,
        suppressed={},
        kinds=np.zeros(len(KINDS), np.int64),
        delays=np.zeros((0, 2), np.int64),
    )


def read(terms: Terms, stored: Stored, where: str) -> tuple[BatchState, Held | None]:
    """Read what is stored; raises as ``anonymity.algorithm.Algorithm.restored`` does."""
    state = BatchState.from_bytes(stored.shard, where)
    shard = f"shard {state.shard}" + (f" ({where})" if where else "")
    require_same(state.fingerprint, terms.fingerprint, shard)
    entries: Mapping[str, dict[int, bytes]] = {"blocks": dict(stored.entries.get("blocks", {}))}
    blob = entries["blocks"].get(0)
    held = None if blob is None else Held.from_bytes(blob, terms.members, shard)
    require_complete(state.entries, entries, shard)
    with readable(f"state of {shard}"):
        require(state.numbers.shape == (2,) and state.key.shape == (8,) and len(state.kinds) == len(KINDS), "numbers")
        if held is not None:
            require_tuples(held, held.position, terms.policy)
            require(bool(held.position[-1] < state.numbers[0]), "positions")
    return state, held


def _nothing(terms: Terms) -> Held:
    policy = terms.policy
    return Held(
        numeric=np.zeros((0, len(policy.numeric))),
        categorical=np.zeros((0, len(policy.categorical)), np.int32),
        subject=None if policy.subject is None else np.zeros(0, np.uint64),
        sensitive=np.zeros((0, len(policy.sensitive)), np.uint64),
        event_time=np.zeros(0, np.int64),
        members=pa.record_batch([pa.array([], field.type) for field in terms.members], schema=terms.members),
        position=np.zeros(0, np.int64),
    )
