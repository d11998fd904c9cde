"""Arrays of a SUHDSA shard, shared with its compiled procedures.

A tuple occupies a *slot* for one step, a group a *row* for one window close.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.batch.procedures import BatchArrays
from crenel.anonymity.algorithms.suhdsa.distance import Scale, scale
from crenel.anonymity.algorithms.suhdsa.log import empty_actions, empty_log
from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaSettings
from crenel.anonymity.algorithms.suhdsa.scratch_buffers import Work, empty_work
from crenel.anonymity.buffer.departure import Columns
from crenel.anonymity.buffer.release_buffer import empty_out
from crenel.anonymity.compiled.arrays import extended, record, zeros
from crenel.anonymity.compiled.jit import inner
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.privacy_models.checks import Checks
from crenel.anonymity.privacy_models.incremental_tally import IncrementalTally, empty_trial
from crenel.anonymity.privacy_models.lookup import with_numbers
from crenel.anonymity.privacy_models.tally import empty_counter
from crenel.anonymity.space.domain import NONE, Boxes, Domain, boxes

FOREVER = np.iinfo(np.int64).max
"""``now.earliest`` where no tuple has a bound in event time."""

OPEN, GIVEN_UP, GONE = range(3)
"""States of a group: open to repair, beyond repair, and merged into another group."""


class WindowGroups(NamedTuple):
    """Groups of the window that closes.

    Attributes
    ----------
    box : minimal generalization
    center : representative, as a box of no width
    head, tail : (rows,) first and last member
    tuples, subjects : (rows,) number of members, and of distinct subjects among them
    diversity : (rows, sensitive) l-diversity; no columns where no privacy model concerns sensitive values
    lacks : (rows, checks) shortfall from the window's aim
    broken : (rows,) first check that the group violates, ``NONE`` where it may be released
    loss : (rows,) InfoLoss of ``box``
    oldest, earliest : (rows,) minimum position and minimum event time of the members
    state : (rows,) ``OPEN``, ``GIVEN_UP`` or ``GONE``
    merged : (rows,) whether the group has absorbed another
    """

    box: Boxes
    center: Boxes
    head: NDArray[np.int32]
    tail: NDArray[np.int32]
    tuples: NDArray[np.int64]
    subjects: NDArray[np.int64]
    diversity: NDArray[np.int64]
    lacks: NDArray[np.float64]
    broken: NDArray[np.int64]
    loss: NDArray[np.float64]
    oldest: NDArray[np.int64]
    earliest: NDArray[np.int64]
    state: NDArray[np.int8]
    merged: NDArray[np.bool_]


@extended
class SuhdsaArrays(BatchArrays):
    """Arrays of one shard.

    They outlast a step; ``SuhdsaShard`` copies the buffered tuples into them.

    Attributes
    ----------
    now : state of the shard. ``next_position``, ``next_release``, ``next_window``: next numbers to assign; ``held``:
        number of buffered tuples, of which ``carried`` are from earlier windows, with ``earliest`` event time;
        ``opened``: event time of the window's first new tuple; ``window_tuples``: window size in tuples; ``target``:
        l_t; ``merges``, ``swaps``: numbers so far; ``alone``: 0 or 1, whether each subject has one tuple in the window;
        from ``dwelt`` to ``last_cost``: state of the controllers (``crenel.anonymity.algorithms.suhdsa.controllers``)
    config : settings: the fields of ``Suhdsa`` and ``Privacy``, -1 for None, 0 or 1 for booleans;
        ``most_subjects``: maximum number of subjects in a merged group
    tuples : columns of the tuples, oldest first; ``value`` is that of ``work.code``
    bits : (slots, numeric) the memory of ``tuples.points.lower`` as integers
    codes : (slots, 1 + sensitive) subject hash, then sensitive codes
    waits : (slots,) whether the tuple stays in the buffer
    reason : (slots,) reason why a carried tuple was not released, a position in ``Privacy.reasons``
    checks, aims : privacy models of each release, and aims of the repairs, which may be stricter
    held : (slots,) slots of the buffered tuples, oldest first, carried ones before new ones
    here, there : tallies of the two groups under inspection
    log, actions : records of the window that closed (``crenel.anonymity.algorithms.suhdsa.log``)
    """

    aims: Checks
    scale: Scale
    bits: NDArray[np.uint64]
    codes: NDArray[np.uint64]
    waits: NDArray[np.bool_]
    reason: NDArray[np.int8]
    held: NDArray[np.int32]
    groups: WindowGroups
    work: Work
    here: IncrementalTally
    there: IncrementalTally
    log: Any
    actions: NDArray[Any]


def empty_now() -> Any:
    """Return ``SuhdsaArrays.now`` without a tuple, and without a window size or target."""
    now = record(
        "next_position next_release next_window held carried earliest opened window_tuples target merges swaps alone "
        "dwelt most_values step_up judged",
        "entropy settled loss_sum delay_sum last_cost",
    )
    now.earliest = FOREVER
    now.settled = now.last_cost = NONE
    return now


def empty_arrays(
    policy: Policy, settings: SuhdsaSettings, slots: int, *, checks: Checks, domain: Domain, **of: Any
) -> SuhdsaArrays:
    """Return arrays with room for ``slots`` tuples; ``of`` has those that do not depend on it, and ``noise``."""
    checks, sensitive = checks._replace(lookup=with_numbers(checks.lookup, slots)), len(policy.sensitive)
    work = empty_work(slots, policy, settings, len(domain.parent))
    codes, numeric = zeros((slots, 1 + sensitive), np.uint64), zeros((slots, len(policy.numeric)))
    return SuhdsaArrays(  # type: ignore[call-arg]  # mypy knows no further fields in a subclass of a NamedTuple
        **of,
        checks=checks,
        aims=checks._replace(parameter=checks.parameter.copy()),
        domain=domain,
        tuples=Columns(
            points=Boxes(numeric, numeric, zeros((slots, len(policy.categorical)), np.int32)),
            subject=codes[:, 0],
            value=work.code[:, 1 : 1 + sensitive],
            event_time=zeros(slots, np.int64),
            position=zeros(slots, np.int64),
        ),
        bits=numeric.view(np.uint64),
        codes=codes,
        waits=zeros(slots, np.bool_),
        reason=zeros(slots, np.int8),
        scale=scale(policy, settings.weights),
        held=zeros(slots, np.int32),
        groups=_groups(slots, policy, checks),
        work=work,
        counter=empty_counter(sensitive, slots),
        here=empty_trial(sensitive, slots, checks),
        there=empty_trial(sensitive, slots, checks),
        out=empty_out(slots, boxes(slots, policy), sensitive),
        log=empty_log(),
        actions=empty_actions(slots * max(sensitive, 1)),
    )


def config_of(policy: Policy, privacy: Privacy, settings: SuhdsaSettings) -> Any:
    """Return ``SuhdsaArrays.config``."""
    config = record(
        "k tuples event_time delay_tuples delay_event_time by_name neighbors most_subjects representative median "
        "ancestor least_target most_target dwell least_window judge",
        "distortion_weight smoothing band delay_weight",
    )
    config.k = privacy.k
    delay = settings.longest_delay
    for name, value in (
        ("tuples", settings.tuples),
        ("event_time", settings.event_time),
        ("delay_tuples", delay.tuples),
        ("delay_event_time", delay.event_time),
    ):
        setattr(config, name, NONE if value is None else value)
    config.by_name = policy.subject is not None
    config.neighbors = settings.neighbors
    config.most_subjects = int(min(settings.growth_cap * privacy.k, 2**62))
    config.representative = settings.output == "representative"
    config.median = settings.numeric == "median"
    config.ancestor = settings.categorical == "ancestor"
    config.distortion_weight = settings.distortion_weight
    config.least_target = privacy.l
    if settings.target is not None:
        config.most_target, config.dwell = settings.target.most, settings.target.dwell
        config.smoothing, config.band = settings.target.smoothing, settings.target.band
    if settings.adaptive is not None:
        config.least_window, config.judge = settings.adaptive.least, settings.adaptive.windows
        config.delay_weight = settings.adaptive.delay_weight
    return config


def _groups(rows: int, policy: Policy, checks: Checks) -> WindowGroups:
    center = boxes(rows, policy)
    return WindowGroups(
        box=boxes(rows, policy),
        center=Boxes(center.lower, center.lower, center.node),
        head=zeros(rows, np.int32),
        tail=zeros(rows, np.int32),
        tuples=zeros(rows, np.int64),
        subjects=zeros(rows, np.int64),
        diversity=zeros((rows, len(policy.sensitive) if len(checks.address) else 0), np.int64),
        lacks=zeros((rows, len(checks.address))),
        broken=zeros(rows, np.int64),
        loss=zeros(rows),
        oldest=zeros(rows, np.int64),
        earliest=zeros(rows, np.int64),
        state=zeros(rows, np.int8),
        merged=zeros(rows, np.bool_),
    )


@inner
def points_of(shard: SuhdsaArrays) -> Boxes:
    """Return tuples as boxes: a point is an interval of one value, which loops then read once."""
    points = shard.tuples.points
    return Boxes(points.lower, points.lower, points.node)
