"""The live form of a shard of windows: flat arrays that the compiled procedures share.

A tuple lives in a *slot*, a group in a *row*. Rows live for one closing of a window only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.live import DELAY_BUCKETS, NONE, Boxes, Domain, Out, boxes, domain, empty_out
from anonymity.policy import KINDS, SUPPRESSIONS, Policy, Privacy
from anonymity.random import RandomStream
from anonymity.window_policy import WindowParameters
from state.block import NO_TIME

# Positions in WindowLive.scalars.
NEXT_POSITION, NEXT_RELEASE, NEXT_WINDOW, CLOCK = 0, 1, 2, 3
HELD, CARRIED, EARLIEST, SIZE, TARGET, CLOSED = 4, 5, 6, 7, 8, 9
OUT_RELEASES, OUT_MEMBERS, OUT_SUPPRESSED, OUT_ACTIONS = 10, 11, 12, 13
DWELT, VALUES, STEP_UP, JUDGED = 14, 15, 16, 17
SCALARS = 18

# Positions in WindowLive.parameters.
K, L, WINDOW_TUPLES, WINDOW_EVENT_TIME, DELAY_TUPLES, DELAY_EVENT_TIME = 0, 1, 2, 3, 4, 5
HAS_SUBJECT, NEIGHBOURS, GROWTH, REPRESENTATIVE, MEDIAN, ANCESTOR = 6, 7, 8, 9, 10, 11
MOST_TARGET, DWELL, LEAST_WINDOW, JUDGE = 12, 13, 14, 15
PARAMETERS = 16

# Positions in WindowLive.settings.
DISTORTION_WEIGHT, SMOOTHING, BAND, DELAY_WEIGHT = 0, 1, 2, 3
SETTINGS = 4

# Positions in WindowLive.control.
ENTROPY, SETTLED, LOSS_SUM, DELAY_SUM, LAST_COST = 0, 1, 2, 3, 4
CONTROL = 5

# Positions in WindowLive.totals; suppressed and kinds take one place for each reason and kind.
RELEASED, MERGES, SWAPS, LONGEST_DELAY, SUPPRESSED = 0, 1, 2, 3, 4
KIND = SUPPRESSED + len(SUPPRESSIONS)
TOTALS = KIND + len(KINDS)

# Columns of WindowLive.actions and of its log of the last window.
A_GROUP, A_NEIGHBOUR, A_ACTION, A_BEFORE, A_AFTER, A_DIVERSITY, A_DIVERSITY_AFTER, A_INSPECTED = 0, 1, 2, 3, 4, 5, 6, 7
ACTION_COLUMNS = 8
W_TUPLES, W_GROUPS, W_VIOLATIONS, W_UNREPAIRED, W_SWAPS, W_MERGES, W_RELEASES, W_SATISFIED, W_CARRIED, W_TARGET = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
)
WINDOW_COLUMNS = 10
W_ENTROPY_MEAN, W_ENTROPY_LEAST = 0, 1

SWAP, MERGE = 0, 1


class Points(NamedTuple):
    """Tuples that wait, one a slot.

    Attributes
    ----------
    numeric : (slots, numeric) values, none of them -0.0
    bits : (slots, numeric) the same memory as integers
    leaf : (slots, categorical) values, as nodes
    value : (slots, 1 + sensitive) subject hash, then sensitive codes; what distinct values are counted of
    event_time : (slots,) epoch milliseconds
    position : (slots,) in the shard's stream, from 0
    waits : (slots,) whether the slot holds a tuple that has not left
    reason : (slots,) why a carried tuple was not released, a position in ``anonymity.policy.SUPPRESSIONS``
    """

    numeric: NDArray[np.float64]
    bits: NDArray[np.uint64]
    leaf: NDArray[np.int32]
    value: NDArray[np.uint64]
    event_time: NDArray[np.int64]
    position: NDArray[np.int64]
    waits: NDArray[np.bool_]
    reason: NDArray[np.int8]


class Scale(NamedTuple):
    """What distances are measured with; all divided by the number of quasi-identifiers already.

    Attributes
    ----------
    numeric : (numeric,) weight of each numeric attribute; ``Domain.scale`` has the division
    categorical : (categorical,) weight of each categorical attribute / quasi-identifiers
    depth : (nodes of all hierarchies,) steps from the root
    """

    numeric: NDArray[np.float64]
    categorical: NDArray[np.float64]
    depth: NDArray[np.float64]


class Groups(NamedTuple):
    """Groups of the window that closes.

    Attributes
    ----------
    box : least generalisation
    centre : representative, as a box of no width
    head, tail : (rows,) first and last member
    tuples, subjects : (rows,) members, and distinct subjects among them
    diversity : (rows, sensitive) distinct sensitive values
    loss : (rows,) InfoLoss of ``box``
    oldest, earliest : (rows,) least position and least event time among the members
    state : (rows,) ``OPEN``, ``GIVEN_UP`` by the repair, or ``GONE`` into another group
    merged : (rows,) whether another has gone into it
    """

    box: Boxes
    centre: Boxes
    head: NDArray[np.int32]
    tail: NDArray[np.int32]
    tuples: NDArray[np.int64]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    loss: NDArray[np.float64]
    oldest: NDArray[np.int64]
    earliest: NDArray[np.int64]
    state: NDArray[np.int8]
    merged: NDArray[np.bool_]


OPEN, GIVEN_UP, GONE = 0, 1, 2


class Work(NamedTuple):
    """Scratch of one closing.

    Attributes
    ----------
    next : (slots,) next member of a tuple's group, or of its pattern
    code : (slots, 1 + sensitive) ``Points.value`` renumbered from 0 within the window
    table : (a power of two,) open addressing, for patterns and codes
    here, there : (1 + sensitive, slots) how many tuples have a code; all 0 between uses
    stamp : (slots,) where a code was last seen
    free : (slots,) patterns in no group yet
    first, last, size : (slots,) of a pattern: its first and last tuple, how many it has
    distance : (slots,) from the group that grows to each free pattern
    near, near_distance : (neighbours,) nearest groups
    flag : (2, slots, 1 + sensitive) of the tuples of two groups that may be swapped: see ``anonymity.repair``
    fit : (slots,) distance of a tuple to the group it would move to
    values : (slots,) of one column
    leaves : (nodes of all hierarchies,) how many have a leaf; all 0 between uses
    box : two boxes
    """

    next: NDArray[np.int32]
    code: NDArray[np.int32]
    table: NDArray[np.int32]
    here: NDArray[np.int32]
    there: NDArray[np.int32]
    stamp: NDArray[np.int32]
    free: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    size: NDArray[np.int32]
    distance: NDArray[np.float64]
    near: NDArray[np.int32]
    near_distance: NDArray[np.float64]
    flag: NDArray[np.int8]
    fit: NDArray[np.float64]
    values: NDArray[np.float64]
    leaves: NDArray[np.int32]
    box: Boxes


class WindowLive(NamedTuple):
    """One shard; ``held`` are the slots of the tuples that wait, oldest first, the carried ones before the new."""

    scalars: NDArray[np.int64]
    parameters: NDArray[np.int64]
    settings: NDArray[np.float64]
    control: NDArray[np.float64]
    random: RandomStream
    domain: Domain
    scale: Scale
    points: Points
    held: NDArray[np.int32]
    groups: Groups
    work: Work
    out: Out
    totals: NDArray[np.int64]
    loss_total: NDArray[np.float64]
    delays: NDArray[np.int64]
    actions: NDArray[np.int64]
    changes: NDArray[np.float64]
    window: NDArray[np.int64]
    entropy: NDArray[np.float64]


def empty_window(policy: Policy, privacy: Privacy, parameters: WindowParameters, random: RandomStream) -> WindowLive:
    """A shard before its first tuple."""
    scalars = np.zeros(SCALARS, np.int64)
    scalars[CLOCK] = NO_TIME
    scalars[EARLIEST] = np.iinfo(np.int64).max
    scalars[SIZE] = NONE if parameters.tuples is None else parameters.tuples
    scalars[TARGET] = privacy.l
    control = np.zeros(CONTROL)
    control[[SETTLED, LAST_COST]] = NONE
    of = domain(policy)
    return WindowLive(
        scalars=scalars,
        parameters=_parameters(policy, privacy, parameters),
        settings=_settings(parameters),
        control=control,
        random=random,
        domain=of,
        scale=_scale(policy, parameters),
        points=_points(0, policy),
        held=np.zeros(0, np.int32),
        groups=_groups(0, policy),
        work=_work(0, policy, parameters, len(of.parent)),
        out=empty_out(0, policy),
        totals=np.zeros(TOTALS, np.int64),
        loss_total=np.zeros(1),
        delays=np.zeros(DELAY_BUCKETS, np.int64),
        actions=_actions(0, policy)[0],
        changes=_actions(0, policy)[1],
        window=np.zeros(WINDOW_COLUMNS, np.int64),
        entropy=np.zeros(2),
    )


def with_slots(live: WindowLive, slots: int, policy: Policy, parameters: WindowParameters) -> WindowLive:
    """The same shard with ``slots`` slots; what it holds keeps its slots."""
    points, held = _points(slots, policy), np.zeros(slots, np.int32)
    before: list[NDArray[Any]] = [*live.points, live.held]
    after: list[NDArray[Any]] = [*points, held]
    for old, new in zip(before, after, strict=True):
        new[: len(old)] = old
    actions, changes = _actions(slots, policy)
    return live._replace(
        points=points,
        held=held,
        groups=_groups(slots, policy),
        work=_work(slots, policy, parameters, len(live.domain.parent)),
        out=empty_out(slots, policy),
        actions=actions,
        changes=changes,
    )


def _parameters(policy: Policy, privacy: Privacy, window: WindowParameters) -> NDArray[np.int64]:
    values = np.zeros(PARAMETERS, np.int64)
    values[K], values[L] = privacy.k, privacy.l
    for place, value in (
        (WINDOW_TUPLES, window.tuples),
        (WINDOW_EVENT_TIME, window.event_time),
        (DELAY_TUPLES, window.delay_tuples),
        (DELAY_EVENT_TIME, window.delay_event_time),
    ):
        values[place] = NONE if value is None else value
    values[HAS_SUBJECT] = policy.subject is not None
    values[NEIGHBOURS] = window.neighbours
    values[GROWTH] = int(min(window.growth_cap * privacy.k, 2**62))
    values[REPRESENTATIVE] = window.output == "representative"
    values[MEDIAN] = window.numeric == "median"
    values[ANCESTOR] = window.categorical == "ancestor"
    if window.target is not None:
        values[MOST_TARGET], values[DWELL] = window.target.most, window.target.dwell
    if window.adaptive is not None:
        values[LEAST_WINDOW], values[JUDGE] = window.adaptive.least, window.adaptive.windows
    return values


def _settings(window: WindowParameters) -> NDArray[np.float64]:
    values = np.zeros(SETTINGS)
    values[DISTORTION_WEIGHT] = window.distortion_weight
    if window.target is not None:
        values[SMOOTHING], values[BAND] = window.target.smoothing, window.target.band
    if window.adaptive is not None:
        values[DELAY_WEIGHT] = window.adaptive.delay_weight
    return values


def _scale(policy: Policy, window: WindowParameters) -> Scale:
    weight = dict(window.weights)
    depths: list[NDArray[np.float64]] = [np.zeros(0)]
    for attribute in policy.categorical:
        tree = attribute.hierarchy
        depth = np.zeros(len(tree.labels))
        for node in range(tree.root - 1, -1, -1):
            step = node
            while step != tree.root:
                step = int(tree.parent[step])
                depth[node] += 1
        depths.append(depth)
    attributes = len(policy.quasi_identifiers)
    return Scale(
        numeric=np.array([weight.get(a.name, 1.0) for a in policy.numeric], np.float64),
        categorical=np.array([weight.get(a.name, 1.0) / attributes for a in policy.categorical], np.float64),
        depth=np.concatenate(depths),
    )


def _points(slots: int, policy: Policy) -> Points:
    numeric = np.zeros((slots, len(policy.numeric)))
    return Points(
        numeric=numeric,
        bits=numeric.view(np.uint64),
        leaf=np.zeros((slots, len(policy.categorical)), np.int32),
        value=np.zeros((slots, 1 + len(policy.sensitive)), np.uint64),
        event_time=np.zeros(slots, np.int64),
        position=np.zeros(slots, np.int64),
        waits=np.zeros(slots, np.bool_),
        reason=np.zeros(slots, np.int8),
    )


def _groups(rows: int, policy: Policy) -> Groups:
    centre = boxes(rows, policy)
    return Groups(
        box=boxes(rows, policy),
        centre=Boxes(centre.lower, centre.lower, centre.node),
        head=np.zeros(rows, np.int32),
        tail=np.zeros(rows, np.int32),
        tuples=np.zeros(rows, np.int64),
        subjects=np.zeros(rows, np.int64),
        diversity=np.zeros((rows, len(policy.sensitive)), np.int64),
        loss=np.zeros(rows),
        oldest=np.zeros(rows, np.int64),
        earliest=np.zeros(rows, np.int64),
        state=np.zeros(rows, np.int8),
        merged=np.zeros(rows, np.bool_),
    )


def _work(slots: int, policy: Policy, window: WindowParameters, nodes: int) -> Work:
    columns = 1 + len(policy.sensitive)
    near = min(window.neighbours, max(slots, 1))
    return Work(
        next=np.zeros(slots, np.int32),
        code=np.zeros((slots, columns), np.int32),
        table=np.zeros(1 << max(4, (2 * slots - 1).bit_length()), np.int32),
        here=np.zeros((columns, slots), np.int32),
        there=np.zeros((columns, slots), np.int32),
        stamp=np.zeros(slots, np.int32),
        free=np.zeros(slots, np.int32),
        first=np.zeros(slots, np.int32),
        last=np.zeros(slots, np.int32),
        size=np.zeros(slots, np.int32),
        distance=np.zeros(slots),
        near=np.zeros(near, np.int32),
        near_distance=np.zeros(near),
        flag=np.zeros((2, slots, columns), np.int8),
        fit=np.zeros(slots),
        values=np.zeros(slots),
        leaves=np.zeros(nodes, np.int32),
        box=boxes(2, policy),
    )


def _actions(slots: int, policy: Policy) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    # Each action takes one off the sum of what groups lack, and that is below l <= k for each attribute of a group,
    # which has k tuples or more.
    rows = slots * max(len(policy.sensitive), 1)
    return np.zeros((rows, ACTION_COLUMNS), np.int64), np.zeros((rows, 2))
