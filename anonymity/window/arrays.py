"""The live form of a shard of windows: flat arrays that the compiled procedures share.

A tuple lives in a *slot*, a group in a *row*. Rows live for one closing of a window only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.random import RandomStream
from anonymity.policy import KINDS, SUPPRESSIONS
from anonymity.release import Out
from anonymity.space.domain import Boxes, Domain

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
W_TUPLES, W_GROUPS, W_VIOLATIONS, W_UNREPAIRED, W_SWAPS = 0, 1, 2, 3, 4
W_MERGES, W_RELEASES, W_SATISFIED, W_CARRIED, W_TARGET = 5, 6, 7, 8, 9
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
    flag : (2, slots, 1 + sensitive) of the tuples of two groups that may be swapped: see ``anonymity.window.repair``
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
