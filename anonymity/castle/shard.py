"""CASTLE on one shard: what goes in, what comes out, and how it is remembered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anonymity.castle import arrays as at
from anonymity.castle import procedures
from anonymity.castle.arrays import empty_live, with_room
from anonymity.castle.reference import share
from anonymity.compiled.counting import grown
from anonymity.compiled.random import random_stream
from anonymity.noise.perturb import Noise
from anonymity.policy import (
    KINDS,
    NEEDS_DOMAIN,
    REJECTIONS,
    SUPPRESSIONS,
    CastleParameters,
    DifferentialPrivacy,
    Policy,
    PolicyError,
    Privacy,
    without_domain,
)
from anonymity.release import Leaving, Releases, collect
from anonymity.space.domain import node_offsets
from anonymity.tuples.slots import Slots
from state.block import NO_TIME, Block
from state.shard import Buffered

_FEWEST_SLOTS = 1024
_NO_SLOTS = np.zeros(0, np.int32)
_ALONE = (procedures.REUSED, procedures.GENERALISED)


@dataclass(frozen=True)
class Counters:
    """What has happened in a shard so far, and how it stands.

    Attributes
    ----------
    tuples_in : tuples let in
    sampled_out : tuples that sampling did not let in
    released, suppressed, rejected : tuples by what became of them; the latter two by reason
    releases : releases by kind (``anonymity.policy.KINDS``)
    merges, splits : clusters that were merged, split
    loss_sum : InfoLoss summed over released tuples
    open_clusters, buffered : clusters in Gamma, tuples that wait
    tau : mean loss of the most recent releases
    oldest_waiting : tuples that came since the oldest that waits
    longest_delay : largest delay so far, in tuples
    delays : how many tuples had which delay; ``delay_of_bucket`` tells the tuples of a bucket
    """

    tuples_in: int
    sampled_out: int
    released: int
    suppressed: dict[str, int]
    rejected: dict[str, int]
    releases: dict[str, int]
    merges: int
    splits: int
    loss_sum: float
    open_clusters: int
    buffered: int
    tau: float
    oldest_waiting: int
    longest_delay: int
    delays: NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """Which tuples came and went in the last step.

    Attributes
    ----------
    block : the tuples that were let in, as they were let in (perturbed, where noise is on); None where none came
    admitted : (tuples,) their slots, in order
    left : (tuples,) positions of those that left
    left_alone : (tuples,) positions of those among them that left their cluster behind
    """

    block: Block | None
    admitted: NDArray[np.int32]
    left: NDArray[np.int64]
    left_alone: NDArray[np.int64]


class Castle:
    """The live form of one shard.

    Parameters
    ----------
    policy, privacy, parameters : what is promised, and how
    members : names and types of the columns that are published as they are, in the order of ``policy.members``
    shard : its number, from 0
    key : 32 bytes, the key of its random stream
    differential_privacy : sampling and perturbation before CASTLE (CASTLEGUARD, Algorithm 1); None: neither
    clusters : room for so many open clusters, where a restored shard has more than ``max_clusters``
    """

    def __init__(
        self,
        policy: Policy,
        privacy: Privacy,
        parameters: CastleParameters,
        *,
        members: pa.Schema,
        shard: int,
        key: bytes,
        differential_privacy: DifferentialPrivacy | None = None,
        clusters: int = 0,
    ) -> None:
        if parameters.delay_event_time is not None and policy.event_time is None:
            raise PolicyError("castle.delay.event_time: needs a column of the role policy.event_time")
        if parameters.suppression == "generalise":
            for name in without_domain(policy):
                raise PolicyError(f"policy.quasi_identifiers.{name}.domain: {NEEDS_DOMAIN}")
        self.policy = policy
        self.parameters = parameters
        self.shard = shard
        self.live = empty_live(policy, privacy, parameters, random_stream(key), clusters)
        self.noise = None if differential_privacy is None else Noise(policy, differential_privacy, key)
        self._slots = Slots(policy, members, _FEWEST_SLOTS)
        self.rejected = np.zeros(len(REJECTIONS), np.int64)
        self.last_step = Step(None, _NO_SLOTS, np.zeros(0, np.int64), np.zeros(0, np.int64))
        self.offsets = node_offsets(policy)

    def push(self, block: Block, watermark: int = NO_TIME) -> Releases:
        """Let in the tuples of a block, in order, and release what falls due.

        With differential privacy, tuples are sampled and perturbed first; those that are sampled out leave no trace but
        a count.

        Parameters
        ----------
        watermark : epoch milliseconds that event time has passed; a tuple whose delay is over by then leaves at once

        Raises
        ------
        RuntimeError
            A guarantee would be broken; nothing of this step was emitted.
        """
        self.rejected += np.bincount(block.rejected.reason, minlength=len(REJECTIONS))
        if self.noise is not None:
            block = self.noise.let_in(block)
        return self._step(block, watermark, ended=False)

    def advance(self, watermark: int) -> Releases:
        """Release every tuple whose event-time delay has passed; raises as ``push`` does."""
        return self._step(None, watermark, ended=False)

    def finish(self) -> Releases:
        """The input has ended: release everything, in order of expiry; raises as ``push`` does."""
        return self._step(None, NO_TIME, ended=True)

    @property
    def next_deadline(self) -> int | None:
        """The earliest epoch milliseconds at which a tuple must leave; None where none waits for event time."""
        delay = self.parameters.delay_event_time
        if delay is None or not self.live.scalars[at.BUFFERED]:
            return None
        return min(int(self.live.tuples.event_time[self.live.heap.slots[0]]) + delay, np.iinfo(np.int64).max - 1)

    @property
    def counters(self) -> Counters:
        """A copy of the shard's counters."""
        scalars, totals = self.live.scalars, self.live.totals
        waiting = int(scalars[at.BUFFERED])
        oldest = int(self.live.tuples.position[scalars[at.OLDEST]]) if waiting else int(scalars[at.NEXT_POSITION])
        return Counters(
            tuples_in=int(scalars[at.NEXT_POSITION]),
            sampled_out=0 if self.noise is None else self.noise.sampled_out,
            released=int(totals[at.RELEASED]),
            suppressed={reason: int(totals[at.SUPPRESSED + i]) for i, reason in enumerate(SUPPRESSIONS)},
            rejected={reason: int(self.rejected[i]) for i, reason in enumerate(REJECTIONS)},
            releases={kind: int(totals[at.KIND + i]) for i, kind in enumerate(KINDS)},
            merges=int(totals[at.MERGES]),
            splits=int(totals[at.SPLITS]),
            loss_sum=float(self.live.loss_total[0]),
            open_clusters=int(scalars[at.OPEN]),
            buffered=waiting,
            tau=float(self.live.tau[0]),
            oldest_waiting=int(scalars[at.NEXT_POSITION]) - oldest,
            longest_delay=int(totals[at.LONGEST_DELAY]),
            delays=self.live.delays.copy(),
        )

    def admit(self, tuples: Block | Buffered) -> NDArray[np.int32]:
        """Copy tuples into free slots, which ``place`` or a restore then links; the slots, in the tuples' order."""
        self._reserve(len(tuples))
        slots = self._slots.take(tuples.members)
        into = self.live.tuples
        into.numeric[slots] = tuples.numeric
        into.leaf[slots] = tuples.categorical + self.offsets
        into.sensitive[slots] = tuples.sensitive
        into.event_time[slots] = tuples.event_time
        if tuples.subject is not None:
            into.subject[slots] = tuples.subject
        return slots

    def release_slots(self, slots: NDArray[np.int32]) -> None:
        """Free slots whose tuples have left."""
        self._slots.give_back(slots)

    def _reserve(self, count: int) -> None:
        slots = self._slots.reserve(count)
        if slots is not None:
            self.live = with_room(self.live, slots, self.policy, self.parameters)
        # Each tuple is counted for its cluster and for all that wait, by subject and by each sensitive attribute, where
        # these are counted at all (anonymity.castle.gamma).
        of = self.live.parameters
        counted = int(of[at.HAS_SUBJECT]) + (len(self.policy.sensitive) if of[at.L] > 1 else 0)
        self.live = self.live._replace(counts=grown(self.live.counts, 2 * count * counted))

    def _step(self, block: Block | None, watermark: int, *, ended: bool) -> Releases:
        slots = _NO_SLOTS if block is None else self.admit(block)
        self.live.scalars[[at.OUT_RELEASES, at.OUT_MEMBERS, at.OUT_SUPPRESSED]] = 0
        procedures.castle(share(self.live), slots, watermark, ended)
        return self._collect(block, slots)

    def _collect(self, block: Block | None, admitted: NDArray[np.int32]) -> Releases:
        live = self.live
        scalars, position = live.scalars, live.tuples.position
        slots = live.out.members[: scalars[at.OUT_MEMBERS]]
        withheld = live.out.suppressed[: scalars[at.OUT_SUPPRESSED]]
        leaving = Leaving(slots, withheld, position, live.tuples.event_time)
        result = collect(
            live.out,
            int(scalars[at.OUT_RELEASES]),
            int(scalars[at.NEXT_RELEASE]),
            leaving,
            self._slots,
            self.offsets,
        )
        alone = np.repeat(np.isin(result.kind, _ALONE), result.tuples)
        self.last_step = Step(
            block,
            admitted,
            np.concatenate([position[slots], position[withheld]]),
            np.concatenate([position[slots[alone]], position[withheld]]),
        )
        return result
