"""What a rule is, and what a run by it works on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.adult import Stream
from crenel.anonymity.compiled.arrays import record
from crenel.anonymity.compiled.random import RandomStream, random_stream
from crenel.anonymity.space.domain import NONE, Boxes, Domain, boxes, domain, node_offsets

RING = 100
"""Releases of which tau is the mean loss."""

REUSED, SUPPRESSED = -2, -3
"""``Search.release`` of tuples that left alone."""

GROUP, TRIED, BEST = 0, 1, 2
"""Rows of ``Search.box``."""


@dataclass(frozen=True)
class Rule:
    """Whom to serve, how to choose a group, and when to reuse; without more than the first four, as it is.

    Attributes
    ----------
    k, l, delay, reuse_limit : as in ``nearest``; one sensitive attribute, and a delay in tuples
    factor : of k - 1, in the rule of reuse
    keep : a release is kept for reuse where it loses no more than so many times tau
    moment : reuse is tried once, at a random moment of the delay, and not at its end
    ahead : so many tuples next due are served in order of what their groups lose
    worst : the most first, not the least
    early : a group around a tuple that has just come leaves where it is in this share of the best recent ones
    starts : groups that are grown, with so many first members; the one that loses least is taken
    exchange : members are exchanged for others while that lowers the loss
    spare : so many members more are grown, and the costliest dropped again
    young : what a member costs that has just come, in shares of tau / k, falling to nothing when it is due
    patience : how much more the enlargement by a member counts that has just come, falling in the same way
    lonely : what a member is worth that would lose much itself, in shares of that loss / k
    along : whoever lies in the box, and has no more than this share of its delay left, leaves too
    along_if_good : the same, only with groups that lose less than tau
    """

    k: int
    l: int = 1  # noqa: E741
    delay: int = 1000
    reuse_limit: int = 1000
    factor: float = 1.0
    keep: float = np.inf
    moment: bool = False
    ahead: int = 0
    worst: bool = False
    early: float = 0.0
    starts: int = 1
    exchange: bool = False
    spare: int = 0
    young: float = 0.0
    patience: float = 0.0
    lonely: float = 0.0
    along: float = 0.0
    along_if_good: bool = False


class Search(NamedTuple):
    """One run: the stream, what waits, the group that is chosen, and what has left.

    Attributes
    ----------
    rule, now : numbers of the rule; and of the run
    points : (tuples,) the stream
    subject, value : (tuples,) number of each person, and of the sensitive value
    waits, place : (tuples,) who waits, ``now.waiting`` of them; and where each stands there, ``NONE`` where it has left
    first, following : (tuples + delay + 1,), (tuples,) who tries reuse at each moment, as chains
    group, best : (tuples,) members of the group, and of the best so far
    chosen : (tuples,) whether it is in the group
    own, bias, weight : (tuples,) what it would lose when it came; what it costs as a member; how much its enlargement
        counts
    box : (3,) of the group, one that is tried, and the best
    omega, omega_loss, matches : (reuse_limit,) what is kept for reuse; scratch
    release, waited : (tuples,) number of the release that each left in; how many tuples came after it until then
    ring : (100,) losses of recent releases
    random : what reuse is drawn by
    """

    rule: Any
    now: Any
    domain: Domain
    points: Boxes
    subject: NDArray[np.int64]
    value: NDArray[np.int64]
    waits: NDArray[np.int64]
    place: NDArray[np.int64]
    first: NDArray[np.int64]
    following: NDArray[np.int64]
    group: NDArray[np.int64]
    best: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    own: NDArray[np.float64]
    bias: NDArray[np.float64]
    weight: NDArray[np.float64]
    box: Boxes
    omega: Boxes
    omega_loss: NDArray[np.float64]
    matches: NDArray[np.int64]
    release: NDArray[np.int64]
    waited: NDArray[np.int64]
    ring: NDArray[np.float64]
    random: RandomStream


def search(tuples: Stream, rule: Rule, seed: int) -> Search:
    """A stream before its first tuple has come; all attributes need a domain."""
    n, policy = len(tuples), tuples.policy
    now = record(
        "came waiting oldest omega_used omega_next ring_used ring_next releases released reused suppressed", "tau loss"
    )
    named = asdict(rule)
    of = record(
        " ".join(name for name, given in named.items() if not isinstance(given, float)),
        " ".join(name for name, given in named.items() if isinstance(given, float)),
    )
    for name, given in named.items():
        setattr(of, name, given)
    subject = np.arange(n) if tuples.subject is None else np.unique(tuples.subject, return_inverse=True)[1]
    random = random_stream(bytes([seed]) * 32)
    moments = np.random.default_rng(seed).integers(0, rule.delay + 1, n) + np.arange(n)
    made = Search(
        rule=of,
        now=now,
        domain=domain(policy),
        points=Boxes(tuples.numeric, tuples.numeric, tuples.categorical + node_offsets(policy)),
        subject=subject.astype(np.int64),
        value=np.unique(tuples.sensitive[:, 0], return_inverse=True)[1].astype(np.int64),
        waits=np.zeros(n, np.int64),
        place=np.full(n, NONE),
        first=np.full(n + rule.delay + 1, NONE),
        following=np.full(n, NONE),
        group=np.zeros(n, np.int64),
        best=np.zeros(n, np.int64),
        chosen=np.zeros(n, np.bool_),
        own=np.zeros(n),
        bias=np.zeros(n),
        weight=np.ones(n),
        box=boxes(3, policy),
        omega=boxes(rule.reuse_limit, policy),
        omega_loss=np.zeros(rule.reuse_limit),
        matches=np.zeros(rule.reuse_limit, np.int64),
        release=np.full(n, NONE),
        waited=np.zeros(n, np.int64),
        ring=np.zeros(RING),
        random=random,
    )
    if rule.moment:
        for i, moment in enumerate(moments.tolist()):
            made.following[i], made.first[moment] = made.first[moment], i
    return made
