"""What leaves a shard: releases with their members, and suppressed tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.arrays import zeros
from anonymity.policy import Policy
from anonymity.space.domain import Boxes, boxes
from anonymity.tuples.slots import Slots


class Out(NamedTuple):
    """What one step releases; ``Releases`` tells the meaning of each column."""

    box: Boxes
    kind: NDArray[np.int8]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    loss: NDArray[np.float64]
    event_time: NDArray[np.int64]
    end: NDArray[np.int64]
    members: NDArray[np.int32]
    suppressed: NDArray[np.int32]
    reason: NDArray[np.int8]


@dataclass(frozen=True)
class Releases:
    """Everything that left during one step, as columns.

    Attributes
    ----------
    release_id : (releases,) counts the releases of the shard from 0
    kind : (releases,) position in ``anonymity.policy.KINDS``
    subjects : (releases,) distinct subjects behind the generalisation; for ``reused`` those of the first release
    tuples : (releases,) members that leave now
    diversity : (releases, sensitive attributes) distinct sensitive values behind the generalisation
    loss : (releases,) InfoLoss in [0, 1] (CASTLE, Section 2.2)
    event_time : (releases,) epoch milliseconds that the shard had reached, ``state.block.NO_TIME`` without event time
    lower, upper : (releases, numeric quasi-identifiers) the published interval, both ends included
    node : (releases, categorical quasi-identifiers) the published node of each hierarchy
    offsets : (releases + 1,) release i has the members offsets[i] to offsets[i + 1]
    members : one list a published column, in the order of ``Policy.members``; None where a value is missing
    suppressed_reason : (suppressed,) position in ``anonymity.policy.SUPPRESSIONS``
    suppressed_position : (suppressed,) position in the shard, counted from 0
    suppressed_event_time : (suppressed,) epoch milliseconds, ``NO_TIME`` without event time
    """

    release_id: NDArray[np.int64]
    kind: NDArray[np.int8]
    subjects: NDArray[np.int64]
    tuples: NDArray[np.int64]
    diversity: NDArray[np.int64]
    loss: NDArray[np.float64]
    event_time: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    offsets: NDArray[np.int64]
    members: tuple[list[Any], ...]
    suppressed_reason: NDArray[np.int8]
    suppressed_position: NDArray[np.int64]
    suppressed_event_time: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.release_id)


@dataclass(frozen=True)
class Leaving:
    """Tuples that leave in one step, by slot.

    Attributes
    ----------
    released : (members,) slots of members, release by release
    suppressed : (suppressed,) slots of suppressed tuples
    position, event_time : (slots,) of all tuples
    """

    released: NDArray[np.int32]
    suppressed: NDArray[np.int32]
    position: NDArray[np.int64]
    event_time: NDArray[np.int64]


def collect(
    out: Out, releases: int, following: int, leaving: Leaving, slots: Slots, nodes: NDArray[np.int32]
) -> Releases:
    """Copy what the procedures wrote, with the published values of what leaves, and free its slots.

    Parameters
    ----------
    releases, following : how many there are, and the id of the next one after them
    nodes : (categorical,) number of the first node of each hierarchy
    """
    offsets = np.concatenate([np.zeros(1, np.int64), out.end[:releases]])
    suppressed = leaving.suppressed
    found = Releases(
        release_id=np.arange(following - releases, following),
        kind=out.kind[:releases].copy(),
        subjects=out.subjects[:releases].copy(),
        tuples=np.diff(offsets),
        diversity=out.diversity[:releases].copy(),
        loss=out.loss[:releases].copy(),
        event_time=out.event_time[:releases].copy(),
        lower=out.box.lower[:releases].copy(),
        upper=out.box.upper[:releases].copy(),
        node=out.box.node[:releases] - nodes,
        offsets=offsets,
        members=slots.give_back(leaving.released),
        suppressed_reason=out.reason[: len(suppressed)].copy(),
        suppressed_position=leaving.position[suppressed],
        suppressed_event_time=leaving.event_time[suppressed],
    )
    slots.give_back(suppressed)
    return found


def empty_out(slots: int, policy: Policy) -> Out:
    """Room for what one step releases of ``slots`` tuples."""
    return Out(
        box=boxes(slots, policy),
        kind=zeros(slots, np.int8),
        subjects=zeros(slots, np.int64),
        diversity=zeros((slots, len(policy.sensitive)), np.int64),
        loss=zeros(slots),
        event_time=zeros(slots, np.int64),
        end=zeros(slots, np.int64),
        members=zeros(slots, np.int32),
        suppressed=zeros(slots, np.int32),
        reason=zeros(slots, np.int8),
    )
