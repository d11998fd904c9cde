"""Data of attacks as arrays: generalizations as boxes, records of the input as points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import SHARD_BY_SUBJECT, Policy, Shards
from crenel.evidence.attack.search import Floats, Integers, Metric, crowds
from crenel.evidence.outputs import RunOutputs, ends, published_nodes
from crenel.evidence.published_sets import PublishedSets
from crenel.evidence.replay import Replayed
from crenel.evidence.sample import Sample

_FOR_SURE = 1e-9
"""Scale of a dimension that the attacker knows with certainty: no point outside counts as near."""

_PART = re.compile(r"(.*-\d+)-(\d+)(?:\.\w+)*")
"""Name of a Flink part file: a sink prefix with the number of the writing subtask, and the number of the file."""


@dataclass(frozen=True)
class Moments:
    """Times at which records arrived and were released, by one clock: stream position or event time.

    Attributes
    ----------
    came : (tuples,) arrival
    left : (released rows,) release
    end : end of the stream, which releases all buffered tuples
    """

    came: Integers
    left: Integers
    end: int


@dataclass(frozen=True)
class Truth:
    """Ground truth: the tuple behind each released row.

    Attributes
    ----------
    row : (released rows,) index of the tuple
    position : arrivals and releases, in tuples of the stream
    time : the same in milliseconds of event time; None without event time
    """

    row: Integers
    position: Moments
    time: Moments | None


@dataclass(frozen=True)
class Placement:
    """Storage location of each released row: its writer, and its position within that writer.

    A writer is a subtask of the sink, which writes one part file after another, or a partition of Kafka. All rows of a
    shard have one writer.

    Attributes
    ----------
    writer : (released rows,) from 0
    order : (released rows,) number of rows of the same writer before it, by the numbers of the files
    shard : (tuples,) shard that follows from the quasi-identifiers; None where they do not determine it
    """

    writer: Integers
    order: Integers
    shard: Integers | None

    @classmethod
    def of(cls, writer: Integers, sample: Sample, shards: Shards, number: Integers | None = None) -> Placement:
        """Return the placement of rows that are in the order of writing.

        Parameters
        ----------
        writer : (released rows,) from 0
        number : (released rows,) number of the file; None: each writer wrote one
        """
        by = np.argsort(writer, kind="stable") if number is None else np.lexsort((number, writer))
        begin = np.concatenate([[0], np.cumsum(np.bincount(writer))])
        order = np.empty(len(writer), np.int64)
        order[by] = np.arange(len(writer)) - begin[writer[by]]
        values_tell = shards.count > 1 and shards.by != SHARD_BY_SUBJECT
        return cls(writer, order, sample.shards(shards) if values_tell else None)

    @classmethod
    def of_files(cls, files: Sequence[tuple[str, int]], sample: Sample, shards: Shards) -> Placement:
        """Return the placement of the rows of files, each with its name and number of rows, in their order.

        A file whose name differs from Flink's part files counts as a writer of its own.
        """
        parts = [(part[1], int(part[2])) if (part := _PART.fullmatch(name)) else (name, 0) for name, _ in files]
        rows = [count for _, count in files]
        writer = np.unique([name for name, _ in parts], return_inverse=True)[1].reshape(-1).astype(np.int64)
        numbers = np.array([number for _, number in parts], np.int64)
        return cls.of(np.repeat(writer, rows), sample, shards, np.repeat(numbers, rows))


@dataclass(frozen=True)
class Scene:
    """Released rows together with the input.

    Attributes
    ----------
    outputs : the published tables
    sample : the input
    points : (tuples, quasi-identifiers) values, NaN for missing numbers, and leaf positions; numeric attributes first
    person : (tuples,) from 0
    lower, upper : (released rows, quasi-identifiers) ends of the published generalization
    metric : distances, and the sets whose numbers are ends
    truth : None where it is unknown
    placement : None where it is unknown
    """

    outputs: RunOutputs
    sample: Sample
    points: Floats
    person: Integers
    lower: Floats
    upper: Floats
    metric: Metric
    truth: Truth | None = None
    placement: Placement | None = None

    @classmethod
    def of(cls, outputs: RunOutputs, sample: Sample, shards: Shards | None = None) -> Scene:
        """Return a scene without ground truth."""
        lower, upper, metric = boxes(outputs.policy, outputs.released)
        points = points_of(sample)
        placement = None
        if outputs.files is not None:
            placement = Placement.of_files(outputs.files, sample, shards or Shards())
        metric = metric._replace(scale=_scale(sample.policy, points))
        return cls(outputs, sample, points, persons_of(sample), lower, upper, metric, placement=placement)

    @classmethod
    def of_replay(cls, replayed: Replayed, sample: Sample, shards: Shards | None = None) -> Scene:
        """Return a scene with ground truth; each shard has its own writer, which is the worst case of placement."""
        last = len(sample) - 1
        position = Moments(np.arange(len(sample)), replayed.left, last)
        time = None
        if sample.milliseconds:
            time = Moments(sample.tuples.event_time, sample.clock[replayed.left], int(sample.clock[-1]))
        placement = Placement.of(replayed.shard, sample, shards or Shards())
        scene = cls.of(replayed.outputs, sample)
        return replace(scene, truth=Truth(replayed.row, position, time), placement=placement)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the quasi-identifiers, in the order of the points."""
        return tuple(attribute.name for attribute in self.sample.policy.coded)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numeric quasi-identifiers."""
        return tuple(attribute.name for attribute in self.sample.policy.numeric)


@dataclass(frozen=True)
class RowGroups:
    """Groups of released rows that are indistinguishable to an attacker, by generalization and possibly release time.

    Attributes
    ----------
    lower, upper : (groups, dimensions) ends of each box
    metric : distances in these dimensions
    group_of_row : (released rows,)
    size : (groups,) number of rows
    points : (tuples, dimensions) the attacker's knowledge of persons, in the same dimensions
    timed : whether the first dimension is the arrival time
    """

    lower: Floats
    upper: Floats
    metric: Metric
    group_of_row: Integers
    size: Integers
    points: Floats
    timed: bool = False

    def reach(self, boxes: Integers, points: Floats) -> tuple[Integers, Integers]:
        """Return (boxes,) first and last index, excluded, of the points that may lie in each group by arrival time."""
        if not self.timed:
            return np.zeros(len(boxes), np.int64), np.full(len(boxes), len(points))
        came = points[:, 0]
        begin = np.searchsorted(np.maximum.accumulate(came), self.lower[boxes, 0], "left")
        end = np.searchsorted(np.minimum.accumulate(came[::-1])[::-1], self.upper[boxes, 0], "right")
        return begin, end

    def only(self, columns: Integers) -> RowGroups:
        """Return the groups for an attacker who knows only some of the dimensions."""
        parts = {name: np.ascontiguousarray(getattr(self, name)[:, columns]) for name in ("lower", "upper", "points")}
        return replace(self, **parts, metric=self.metric.only(columns), timed=False)

    def rows(self) -> tuple[Integers, Integers]:
        """Return released rows in the order of their groups, and (groups + 1,) the offsets of the groups."""
        return np.argsort(self.group_of_row, kind="stable"), np.concatenate([[0], np.cumsum(self.size)])


def groups(scene: Scene, apart: Integers | None = None) -> RowGroups:
    """Group the rows that are indistinguishable to an attacker without knowledge of their order.

    ``apart``: (released rows,) a number for each; rows with different numbers are never in one group. None: the
    generalization alone decides.
    """
    first, group, size = _grouped(scene, np.zeros(len(scene.lower), np.int64) if apart is None else apart)
    return RowGroups(scene.lower[first], scene.upper[first], scene.metric, group, size, scene.points)


def _grouped(scene: Scene, apart: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the first row of each group, the group of each row, and (groups,) their numbers of rows."""
    both = np.column_stack([apart, scene.lower, scene.upper])
    _, first, group, size = np.unique(both, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return first, group.reshape(-1), size


def groups_by_moment(scene: Scene, moments: Moments, within: int, k: int) -> RowGroups:
    """Group rows for an attacker who watches releases and knows arrival times to within ``within``.

    The rows under one generalization at one moment are a group. The attacker knows the range of waiting times of rows
    released with fewer than ``k``, and of all others. Anyone who runs the same job on other data knows these ranges.
    The first dimension is the arrival time.
    """
    first, group, size = _grouped(scene, moments.left)
    truth = scene.truth
    if truth is None:
        raise ValueError("the scene has no ground truth")
    waited = moments.left - moments.came[truth.row]
    left = moments.left[first].astype(np.float64)
    early, late = np.zeros(len(first)), np.zeros(len(first))
    for alone in (True, False):
        same_kind = (size < k) == alone
        waits = waited[same_kind[group] & (moments.left < moments.end)]
        if not len(waits):
            waits = waited[same_kind[group]]
        if len(waits):
            early[same_kind], late[same_kind] = waits.max(), waits.min()
    at_end = left >= moments.end
    early[at_end], late[at_end] = waited.max() if len(waited) else 0, min(waited.min(), 0) if len(waited) else 0
    return RowGroups(
        lower=np.column_stack([left - early - within, scene.lower[first]]),
        upper=np.column_stack([left - late + within, scene.upper[first]]),
        metric=scene.metric.behind(_FOR_SURE),
        group_of_row=group,
        size=size,
        points=np.column_stack([moments.came.astype(np.float64), scene.points]),
        timed=True,
    )


def groups_at_moment(scene: Scene, truth: Truth) -> RowGroups:
    """Group rows for an attacker who has the moment of each person's release.

    The rows under one generalization at one moment are a group. With windows, the rows of one moment are those of one
    window. The first dimension is the moment; -1 for tuples that were not released.
    """
    left = truth.position.left
    first, group, size = _grouped(scene, left)
    at = np.full(len(scene.points), -1.0)
    at[truth.row] = left
    return RowGroups(
        lower=np.column_stack([left[first], scene.lower[first]]),
        upper=np.column_stack([left[first], scene.upper[first]]),
        metric=scene.metric.behind(_FOR_SURE),
        group_of_row=group,
        size=size,
        points=np.column_stack([at, scene.points]),
    )


def placed(scene: Scene, placement: Placement) -> Scene:
    """Return the scene of an attacker who reads placements.

    Where the shards of persons are known, the writer becomes an additional first dimension. The attacker guesses the
    writer of a shard: the writer with the largest share of rows that fit persons of the shard.
    """
    shard, writer = placement.shard, placement.writer
    if shard is None:
        return scene
    seen = groups(scene, writer)
    inside = np.zeros((len(seen.size), int(shard.max(initial=0)) + 1))
    for number in range(inside.shape[1]):
        points = np.ascontiguousarray(scene.points[shard == number])
        inside[:, number] = crowds(
            seen.lower, seen.upper, points, seen.metric, *seen.reach(np.arange(len(seen.size)), points)
        )
    inside *= (seen.size / np.maximum(inside.sum(axis=1), 1))[:, None]
    of_writer = np.zeros((int(writer.max(initial=0)) + 1, inside.shape[1]))
    first = np.empty(len(seen.size), np.int64)
    first[seen.group_of_row] = writer
    np.add.at(of_writer, first, inside)
    of_writer /= np.maximum(np.bincount(writer), 1)[:, None]
    return replace(
        scene,
        lower=np.column_stack([writer, scene.lower]),
        upper=np.column_stack([writer, scene.upper]),
        points=np.column_stack([of_writer.argmax(axis=0)[shard], scene.points]),
        metric=scene.metric.behind(_FOR_SURE),
    )


def runs(scene: Scene, placement: Placement) -> Integers:
    """Return (released rows,) a number for each run of consecutive rows of one writer under one generalization.

    A run holds one release, or consecutive releases that are indistinguishable.
    """
    by = np.lexsort((placement.order, placement.writer))
    both = np.column_stack([placement.writer, scene.lower, scene.upper])[by]
    run = np.zeros(len(by), np.int64)
    run[by[1:]] = np.cumsum((both[1:] != both[:-1]).any(axis=1))
    return run


def moments_of_order(scene: Scene, placement: Placement, came: Integers, clock: Integers) -> Moments:
    """Estimate release times, for an attacker who knows arrival times and reads the files later.

    The attacker assumes that writers keep pace with the stream. When a writer had written the first half of its rows,
    the first half of the tuples that may belong to it had arrived. The same holds for every other share.

    Parameters
    ----------
    scene : of ``placed``
    came : (tuples,) arrival of each
    clock : (tuples,) clock value at each arrival
    """
    run, left = runs(scene, placement), np.zeros(len(placement.writer), np.int64)
    begin = np.full(int(run.max(initial=-1)) + 1, len(run))
    np.minimum.at(begin, run, placement.order)
    for writer in np.unique(placement.writer).tolist():
        rows = placement.writer == writer
        candidates = np.arange(len(clock))
        if placement.shard is not None:
            candidates = np.flatnonzero(scene.points[:, 0] == writer)
        if len(candidates):
            left[rows] = clock[candidates[begin[run[rows]] * len(candidates) // rows.sum()]]
    return Moments(came, left, int(clock[-1]) + 1)


def boxes(policy: Policy, released: pa.Table) -> tuple[Floats, Floats, Metric]:
    """Return (rows, quasi-identifiers) both ends of published values, and the sets whose numbers are ends.

    A representative is a box of one point. Distances have the scale 1.
    """
    lower: list[Floats] = []
    upper: list[Floats] = []
    sizes: list[Integers] = []
    leaves: list[Integers] = []
    is_set = np.zeros(len(policy.coded), np.bool_)
    for i, attribute in enumerate(policy.coded):
        name = attribute.name
        if isinstance(attribute, Numeric):
            low, high = ends(attribute, released)
            lower.append(low)
            upper.append(high)
        elif attribute.publish == "set":
            sets = PublishedSets.read(attribute, released[name])
            number = (sets.set_of_row + sum(map(len, sizes))).astype(np.float64)
            lower.append(number)
            upper.append(number)
            sizes.append(sets.size)
            leaves.append(sets.leaves)
            is_set[i] = True
        else:
            tree = attribute.hierarchy
            node = published_nodes(tree, released[name])
            lower.append(tree.first[node].astype(np.float64))
            upper.append(tree.last[node].astype(np.float64))
    nothing = np.zeros(0, np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([nothing, *sizes]))]).astype(np.int64)
    metric = Metric(np.ones(len(is_set)), is_set, offsets, np.concatenate([nothing, *leaves]))
    return np.stack(lower, axis=1), np.stack(upper, axis=1), metric


def points_of(sample: Sample) -> Floats:
    """Return (tuples, quasi-identifiers) values, as in ``Scene.points``.

    A missing number is NaN, which is in every interval: whether it is missing is known by an attribute of its own.
    """
    return np.column_stack([sample.numbers, sample.tuples.categorical.astype(np.float64)])


def persons_of(sample: Sample) -> Integers:
    """Return (tuples,) the number of each tuple's person, from 0."""
    if sample.tuples.subject is None:
        return np.arange(len(sample))
    return np.unique(sample.tuples.subject, return_inverse=True)[1].reshape(-1).astype(np.int64)


def spawned(random: np.random.Generator, count: int) -> list[np.random.Generator]:
    """Return generators that are independent of another, as its ``spawn`` does from numpy 1.25 on."""
    bits: Any = random.bit_generator
    seeds = bits.seed_seq if hasattr(bits, "seed_seq") else bits._seed_seq
    return [np.random.default_rng(seed) for seed in seeds.spawn(count)]


def part_of(sample: Sample, chosen: Integers) -> Sample:
    """Return the chosen tuples of a sample, in their order."""
    kept = np.zeros(len(sample), np.bool_)
    kept[chosen] = True
    return replace(sample, tuples=type(sample.tuples)(**sample.tuples.chosen(kept)))


def _scale(policy: Policy, points: Floats) -> Floats:
    """Return half the ranges of numbers; 1 for categories, because all wrong leaves count alike."""
    scale = np.ones(len(policy.coded))
    for i, attribute in enumerate(policy.numeric):
        ends = attribute.domain or (points[:, i].min(initial=np.inf), points[:, i].max(initial=-np.inf))
        # A range may overflow float64, or be too small a divisor.
        scale[i] = min(max(ends[1] / 2 - ends[0] / 2, np.finfo(np.float64).tiny), np.finfo(np.float64).max)
    return scale
