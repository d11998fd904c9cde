"""Room for a shard of windows: the arrays of ``anonymity.window.arrays``, made from a policy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.random import RandomStream
from anonymity.policy import Policy, Privacy
from anonymity.release import empty_out
from anonymity.space.domain import NONE, Boxes, boxes, domain
from anonymity.tuples.delays import DELAY_BUCKETS
from anonymity.window import arrays as at
from anonymity.window.arrays import Groups, Points, Scale, WindowLive, Work
from anonymity.window.parameters import WindowParameters
from state.block import NO_TIME


def empty_window(policy: Policy, privacy: Privacy, parameters: WindowParameters, random: RandomStream) -> WindowLive:
    """A shard before its first tuple."""
    scalars = np.zeros(at.SCALARS, np.int64)
    scalars[at.CLOCK] = NO_TIME
    scalars[at.EARLIEST] = np.iinfo(np.int64).max
    scalars[at.SIZE] = NONE if parameters.tuples is None else parameters.tuples
    scalars[at.TARGET] = privacy.l
    control = np.zeros(at.CONTROL)
    control[[at.SETTLED, at.LAST_COST]] = NONE
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
        totals=np.zeros(at.TOTALS, np.int64),
        loss_total=np.zeros(1),
        delays=np.zeros(DELAY_BUCKETS, np.int64),
        actions=_actions(0, policy)[0],
        changes=_actions(0, policy)[1],
        window=np.zeros(at.WINDOW_COLUMNS, np.int64),
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
    values = np.zeros(at.PARAMETERS, np.int64)
    values[at.K], values[at.L] = privacy.k, privacy.l
    for place, value in (
        (at.WINDOW_TUPLES, window.tuples),
        (at.WINDOW_EVENT_TIME, window.event_time),
        (at.DELAY_TUPLES, window.delay_tuples),
        (at.DELAY_EVENT_TIME, window.delay_event_time),
    ):
        values[place] = NONE if value is None else value
    values[at.HAS_SUBJECT] = policy.subject is not None
    values[at.NEIGHBOURS] = window.neighbours
    values[at.GROWTH] = int(min(window.growth_cap * privacy.k, 2**62))
    values[at.REPRESENTATIVE] = window.output == "representative"
    values[at.MEDIAN] = window.numeric == "median"
    values[at.ANCESTOR] = window.categorical == "ancestor"
    if window.target is not None:
        values[at.MOST_TARGET], values[at.DWELL] = window.target.most, window.target.dwell
    if window.adaptive is not None:
        values[at.LEAST_WINDOW], values[at.JUDGE] = window.adaptive.least, window.adaptive.windows
    return values


def _settings(window: WindowParameters) -> NDArray[np.float64]:
    values = np.zeros(at.SETTINGS)
    values[at.DISTORTION_WEIGHT] = window.distortion_weight
    if window.target is not None:
        values[at.SMOOTHING], values[at.BAND] = window.target.smoothing, window.target.band
    if window.adaptive is not None:
        values[at.DELAY_WEIGHT] = window.adaptive.delay_weight
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
    return np.zeros((rows, at.ACTION_COLUMNS), np.int64), np.zeros((rows, 2))
