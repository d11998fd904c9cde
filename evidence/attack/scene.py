"""What left and what came in, as numbers: generalisations as boxes, people's values as points."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonymity.attributes import Numeric
from anonymity.policy import Policy
from evidence.attack.search import Floats, Integers
from evidence.outputs import Outputs
from evidence.replay import Replayed
from evidence.sample import Sample

_FOR_SURE = 1e-9
"""The scale of what an observer knows without doubt: outside of it nothing is near."""


@dataclass(frozen=True)
class Moments:
    """When rows left and when they came, by one clock: the position of a tuple in the stream, or its event time.

    Attributes
    ----------
    came : (tuples,)
    left : (released rows,)
    end : when the stream ended, and all left that waited
    """

    came: Integers
    left: Integers
    end: int


@dataclass(frozen=True)
class Truth:
    """Of whom each released row is.

    Attributes
    ----------
    row : (released rows,) the tuple that it is of
    position : when each came and left, in tuples of the stream
    time : the same in milliseconds of event time; None without event time
    """

    row: Integers
    position: Moments
    time: Moments | None


@dataclass(frozen=True)
class Scene:
    """What left, beside what came in.

    Attributes
    ----------
    outputs : what left
    sample : what came in
    points : (tuples, quasi-identifiers) values, and places of leaves; numeric ones first
    person : (tuples,) from 0
    lower, upper : (released rows, quasi-identifiers) of what is published of each
    scale : (quasi-identifiers,) by which distances are divided
    truth : None where it is not known
    """

    outputs: Outputs
    sample: Sample
    points: Floats
    person: Integers
    lower: Floats
    upper: Floats
    scale: Floats
    truth: Truth | None = None

    @classmethod
    def of(cls, outputs: Outputs, sample: Sample) -> Scene:
        """A scene whose truth is not known."""
        lower, upper = boxes(outputs.policy, outputs.released)
        points = points_of(sample)
        return cls(outputs, sample, points, persons_of(sample), lower, upper, _scale(sample.policy, points))

    @classmethod
    def of_replay(cls, replayed: Replayed, sample: Sample) -> Scene:
        """A scene whose truth is known."""
        last = len(sample) - 1
        position = Moments(np.arange(len(sample)), replayed.left, last)
        time = None
        if sample.milliseconds:
            time = Moments(sample.tuples.event_time, sample.clock[replayed.left], int(sample.clock[-1]))
        return replace(cls.of(replayed.outputs, sample), truth=Truth(replayed.row, position, time))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the quasi-identifiers, in the order of the points."""
        return tuple(attribute.name for attribute in self.sample.policy.coded)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numeric ones among them."""
        return tuple(attribute.name for attribute in self.sample.policy.numeric)


@dataclass(frozen=True)
class Groups:
    """Released rows that an observer cannot tell apart by what was published of them, and perhaps by when they left.

    Attributes
    ----------
    lower, upper : (groups, dimensions)
    scale : (dimensions,)
    of : (released rows,) the group of each
    size : (groups,) rows
    points : (tuples, dimensions) what the observer knows of people, in the same dimensions
    timed : whether the first dimension is when people came
    """

    lower: Floats
    upper: Floats
    scale: Floats
    of: Integers
    size: Integers
    points: Floats
    timed: bool = False

    def reach(self, boxes: Integers, points: Floats) -> tuple[Integers, Integers]:
        """(boxes,) first and last, excluded, of the points that may lie in some groups, by when they came."""
        if not self.timed:
            return np.zeros(len(boxes), np.int64), np.full(len(boxes), len(points))
        came = points[:, 0]
        begin = np.searchsorted(np.maximum.accumulate(came), self.lower[boxes, 0], "left")
        end = np.searchsorted(np.minimum.accumulate(came[::-1])[::-1], self.upper[boxes, 0], "right")
        return begin, end

    def only(self, columns: Integers) -> Groups:
        """The same for an observer who knows some of the dimensions."""
        parts = {name: np.ascontiguousarray(getattr(self, name)[:, columns]) for name in ("lower", "upper", "points")}
        return replace(self, **parts, scale=self.scale[columns], timed=False)

    def rows(self) -> tuple[Integers, Integers]:
        """Released rows in the order of their groups, and where those of each group begin and end."""
        return np.argsort(self.of, kind="stable"), np.concatenate([[0], np.cumsum(self.size)])


def groups(scene: Scene) -> Groups:
    """For an observer who sees what left, and in no order."""
    both = np.concatenate([scene.lower, scene.upper], axis=1)
    _, first, of, size = np.unique(both, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return Groups(scene.lower[first], scene.upper[first], scene.scale, of.reshape(-1), size, scene.points)


def groups_by_moment(scene: Scene, moments: Moments, within: int, k: int) -> Groups:
    """For an observer who sees rows leave, and knows of everybody when the row came to within ``within``.

    What leaves under one generalisation at one moment is a group. The observer knows between which bounds rows wait
    that leave with fewer than ``k``, and those that leave with more, as who runs the same job on other data does. The
    first dimension is when a row came.
    """
    both = np.column_stack([moments.left, scene.lower, scene.upper])
    _, first, of, size = np.unique(both, axis=0, return_index=True, return_inverse=True, return_counts=True)
    of = of.reshape(-1)
    truth = scene.truth
    if truth is None:
        raise ValueError("nobody knows when whose row left")
    waited = moments.left - moments.came[truth.row]
    left = moments.left[first].astype(np.float64)
    early, late = np.zeros(len(first)), np.zeros(len(first))
    for alone in (True, False):
        mine = (size < k) == alone
        whole = waited[mine[of] & (moments.left < moments.end)]
        if not len(whole):
            whole = waited[mine[of]]
        if len(whole):
            early[mine], late[mine] = whole.max(), whole.min()
    at_end = left >= moments.end
    early[at_end], late[at_end] = waited.max() if len(waited) else 0, min(waited.min(), 0) if len(waited) else 0
    return Groups(
        lower=np.column_stack([left - early - within, scene.lower[first]]),
        upper=np.column_stack([left - late + within, scene.upper[first]]),
        scale=np.concatenate([[_FOR_SURE], scene.scale]),
        of=of,
        size=size,
        points=np.column_stack([moments.came.astype(np.float64), scene.points]),
        timed=True,
    )


def boxes(policy: Policy, released: pa.Table) -> tuple[Floats, Floats]:
    """(rows, quasi-identifiers) both ends of what is published; a representative is a box of one point."""
    lower: list[Floats] = []
    upper: list[Floats] = []
    for attribute in policy.coded:
        name = attribute.name
        if isinstance(attribute, Numeric):
            held = (f"{name}_min", f"{name}_max") if f"{name}_min" in released.column_names else (name, name)
            for ends, column in zip((lower, upper), held, strict=True):
                ends.append(released[column].to_numpy().astype(np.float64))
        else:
            tree = attribute.hierarchy
            node = pc.index_in(released[name], pa.array(tree.labels, pa.string())).to_numpy().astype(np.int64)
            lower.append(tree.first[node].astype(np.float64))
            upper.append(tree.last[node].astype(np.float64))
    return np.stack(lower, axis=1), np.stack(upper, axis=1)


def points_of(sample: Sample) -> Floats:
    """(tuples, quasi-identifiers) as ``Scene.points``."""
    return np.column_stack([sample.tuples.numeric, sample.tuples.categorical.astype(np.float64)])


def persons_of(sample: Sample) -> Integers:
    """(tuples,) persons by number, from 0."""
    if sample.tuples.subject is None:
        return np.arange(len(sample))
    return np.unique(sample.tuples.subject, return_inverse=True)[1].reshape(-1).astype(np.int64)


def part_of(sample: Sample, chosen: Integers) -> Sample:
    """Some tuples of a sample, in their order."""
    kept = np.zeros(len(sample), np.bool_)
    kept[chosen] = True
    return replace(sample, tuples=type(sample.tuples)(**sample.tuples.chosen(kept)))


def _scale(policy: Policy, points: Floats) -> Floats:
    """Half the ranges of numbers; of categories 1, as it does not matter by how many leaves one is wrong."""
    scale = np.ones(len(policy.coded))
    for i, attribute in enumerate(policy.numeric):
        ends = attribute.domain or (points[:, i].min(initial=np.inf), points[:, i].max(initial=-np.inf))
        # A range may be more than float64 holds, or less than can be divided by.
        scale[i] = min(max(ends[1] / 2 - ends[0] / 2, np.finfo(np.float64).tiny), np.finfo(np.float64).max)
    return scale
