"""What the procedures of one closing work on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, inner
from anonymity.promise.checks import Checks
from anonymity.promise.trial import Trial
from anonymity.space.domain import Domain
from anonymity.window.arrays import Groups, Points, WindowArrays
from anonymity.window.distance import Scale
from anonymity.window.work import Work


class Closing(NamedTuple):
    """What the procedures of one closing work on: all of it without references, which would be counted in each loop.

    Attributes
    ----------
    tuples : how many are in ``held``
    alone : whether nobody comes twice among them
    k, most_subjects, weight, median, ancestor : what was told, as ``WindowArrays.of`` has it
    """

    domain: Domain
    scale: Scale
    points: Points
    held: NDArray[np.int32]
    tuples: Int
    groups: Groups
    work: Work
    checks: Checks
    aims: Checks
    here: Trial
    there: Trial
    alone: bool
    k: Int
    most_subjects: Int
    weight: float
    median: bool
    ancestor: bool
    actions: NDArray[Any]


@inner
def closing(shard: WindowArrays) -> Closing:
    """The window that closes; it has been numbered."""
    now, of = shard.now, shard.of
    return Closing(
        shard.domain,
        shard.scale,
        shard.points,
        shard.held,
        now.held,
        shard.groups,
        shard.work,
        shard.checks,
        shard.aims,
        shard.here,
        shard.there,
        now.alone != 0,
        of.k,
        of.most_subjects,
        of.distortion_weight,
        of.median != 0,
        of.ancestor != 0,
        shard.actions,
    )
