"""Drive of a shard in tests: tuples in, judged releases out."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Shard, ShardContext
from crenel.anonymity.algorithm import Step as Taken
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaStep
from crenel.anonymity.buffer.delayed_shard import DelayedShard
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.space.domain import NONE
from crenel.state.block import Block
from crenel.state.shard import StoredShard
from tests.support.checker import Checker, Gamma
from tests.support.source import Advance, Finish, Forget, Push, Row, Step

KEY = bytes(range(32))
PRINT = {"policy": "the same"}


@dataclass(frozen=True)
class Setting:
    """Settings that a shard is built from; ``types`` are those of ``Policy.members``."""

    policy: Policy
    privacy: Privacy
    algorithm: Castle
    types: tuple[pa.DataType, ...]
    sampling_and_noise: SamplingAndNoise | None = None

    @property
    def members(self) -> pa.Schema:
        return pa.schema(list(zip(self.policy.members, self.types, strict=True)))

    def terms(self, fingerprint: Mapping[str, str] | None = None) -> ShardContext:
        return ShardContext(
            self.policy,
            self.privacy,
            self.algorithm,
            self.members,
            self.sampling_and_noise,
            PRINT if fingerprint is None else fingerprint,
        )

    def shard(self, key: bytes = KEY, fingerprint: Mapping[str, str] | None = None) -> Any:
        """Return a shard of which nothing is stored."""
        return self.algorithm.new(self.terms(fingerprint), 0, key)

    def again(self, stored: StoredShard, fingerprint: Mapping[str, str] | None = None, where: str = "") -> Any:
        """Return the shard that was stored."""
        return self.algorithm.restored(self.terms(fingerprint), stored, where)

    def checker(self, key: bytes = KEY) -> Any:
        """Return the checker of such a shard."""
        return Checker(self.policy, self.privacy, self.algorithm, key)

    def block(self, rows: Sequence[Row]) -> Block:
        """Return the block that encode would make of tuples."""
        policy = self.policy
        columns: dict[str, list[Any]] = {
            attribute.name: [row.values[i] for row in rows] for i, attribute in enumerate(policy.attributes)
        }
        leaf = [
            {label: i for i, label in enumerate(a.hierarchy.labels[: a.hierarchy.leaves])} for a in policy.categorical
        ]
        numeric = [np.array(columns[a.name], np.float64) for a in policy.numeric]
        nodes = [
            np.array([of[v] for v in columns[a.name]], np.int32) for a, of in zip(policy.categorical, leaf, strict=True)
        ]
        published = [[row.published[i] for row in rows] for i in range(len(policy.members))]
        sensitive = [hashes(column) for column in published[: len(policy.sensitive)]]
        return Block(
            shard=0,
            numeric=stacked(numeric, len(rows), np.float64),
            categorical=stacked(nodes, len(rows), np.int32),
            subject=None if policy.subject is None else hashes([row.subject for row in rows]),
            sensitive=stacked(sensitive, len(rows), np.uint64),
            event_time=np.array([row.event_time for row in rows], np.int64),
            members=pa.record_batch(
                [pa.array(c, t) for c, t in zip(published, self.types, strict=True)], schema=self.members
            ),
        )


def stacked(columns: Sequence[NDArray[Any]], rows: int, dtype: type[np.generic]) -> NDArray[Any]:
    """Columns side by side, (rows, columns), also where there is none."""
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), dtype)


def hashes(values: Iterable[object]) -> NDArray[np.uint64]:
    """64-bit codes, equal where values are equal."""
    held = list(values)
    digests = {value: hashlib.blake2b(repr(value).encode(), digest_size=8).digest() for value in set(held)}
    return np.array([int.from_bytes(digests[value], "little") for value in held], np.uint64)


def taken(setting: Setting, shard: Shard, step: Step) -> Taken:
    """Return the result of a shard for one step."""
    if isinstance(step, Push):
        block = setting.block(step.rows)
        if step.passed:
            block = replace(block, watermark=np.array(step.passed, np.int64))
        return shard.push(block, step.watermark)
    if isinstance(step, Forget):
        return shard.forget(hashes(step.subjects))
    return shard.advance(step.watermark) if isinstance(step, Advance) else shard.finish()


def apply(setting: Setting, shard: Shard, step: Step) -> Releases:
    """Have a shard take one step, and return its releases."""
    return taken(setting, shard, step).releases


def steps_of(setting: Setting, shard: Shard, steps: Iterable[Step]) -> Iterator[tuple[Step, Releases]]:
    """Yield each step with its releases, as it is taken."""
    for step in steps:
        yield step, apply(setting, shard, step)


class Kept:
    """A shard of any algorithm, with what lies in managed state of it, after each step.

    Attributes
    ----------
    live : its live form
    stored : what is stored
    found : result of the last step
    written : bytes of blocks that were written so far
    """

    found: Any

    def __init__(self, setting: Setting, fingerprint: Mapping[str, str] | None = None) -> None:
        self.setting, self._fingerprint = setting, fingerprint
        self.live = setting.shard(fingerprint=fingerprint)
        self.stored, self.written = StoredShard(b"", {}), 0

    def take(self, step: Step) -> Releases:
        """Take one step."""
        self.found = taken(self.setting, self.live, step)
        self.stored = self.stored.after(self.found.changes)
        self.written += sum(len(blob or b"") for blob in self.found.changes.entries["blocks"].values())
        return self.found.releases

    def restore(self, setting: Setting | None = None, fingerprint: Mapping[str, str] | None = None) -> None:
        """Go on from what is stored, under other terms where they are given."""
        self.setting = setting or self.setting
        self.live = self.setting.again(self.stored, fingerprint or self._fingerprint, "key 3")

    def blobs(self) -> list[bytes]:
        """Return all stored bytes."""
        return [self.stored.shard, *(blob for held in self.stored.entries.values() for blob in held.values())]


def judge(checker: Any, step: Step, found: Any, shard: Any) -> None:
    """Have the checker of an algorithm judge a step of a shard, and the shard's counters after it."""
    if isinstance(checker, Checker):
        checker.observe(step, found.releases, gamma_of(shard))
        checker.agree(shard.counters)
    else:
        reports = (found.repairs,) if isinstance(found, SuhdsaStep) else ()
        checker.observe(step, found.releases, *reports)
        checker.agree(shard.counters, shard.next_deadline)


def judged(setting: Setting, steps: Iterable[Step], key: bytes = KEY) -> tuple[list[Releases], Any, Any]:
    """Run a new shard and have its checker judge it and its counters after every step."""
    shard, checker, outputs = setting.shard(key), setting.checker(key), []
    for step in steps:
        found = taken(setting, shard, step)
        judge(checker, step, found, shard)
        outputs.append(found.releases)
    return outputs, shard.counters, checker


def judged_as_restored(
    setting: Setting, steps: Iterable[Step], restores: Container[int], kinds: Sequence[str] = ("blocks",)
) -> tuple[list[Releases], Any]:
    """Run a shard that goes on from its stored state after some steps, and have the checker judge it after every step.

    Entries of ``kinds`` must be stored while tuples are buffered, and at no other time.
    """
    kept, checker, outputs = Kept(setting), setting.checker(), []
    for number, step in enumerate(steps):
        outputs.append(kept.take(step))
        judge(checker, step, kept.found, kept.live)
        for kind in kinds:
            assert bool(kept.stored.entries.get(kind)) == (kept.live.counters.buffered > 0)
        if number in restores:
            due = _release_due(kept.live)
            kept.restore()
            assert _release_due(kept.live) == due
    return outputs, kept.live.counters


def _release_due(shard: Any) -> int | None:
    """Return when the next release is due.

    A lasting guarantee may have the shard wake sooner, to forget persons. A restore counts that moment anew, and it may
    differ, as it is only a bound.
    """
    return DelayedShard.next_deadline.__get__(shard) if isinstance(shard, DelayedShard) else shard.next_deadline


def gamma_of(castle: Any) -> Gamma:
    """Return its open clusters, for the checker."""
    arrays = castle.arrays
    found: dict[int, set[int]] = {}
    for slot in np.flatnonzero(arrays.tuples.cluster != NONE).tolist():
        cluster = int(arrays.clusters.id[arrays.tuples.cluster[slot]])
        found.setdefault(cluster, set()).add(int(arrays.tuples.position[slot]))
    return {cluster: frozenset(held) for cluster, held in found.items()}


def in_blocks(rows: Sequence[Row], size: int) -> list[Step]:
    """Return a stream without event time, cut into blocks of ``size`` tuples, to its end."""
    blocks = [Push(tuple(rows[i : i + size])) for i in range(0, len(rows), size)]
    return [*blocks, Finish()]


def columns_of(outputs: Sequence[Releases]) -> dict[str, list[Any]]:
    """Return all releases of a run as one, a list per column."""
    of_noise = ("linked", "noise_expected", "noise_error") if not any(out.noise_error.size for out in outputs) else ()
    unknown = () if any(out.subject.size for out in outputs) else ("subject", "member_event_time")
    unknown += () if any(out.published_loss.size for out in outputs) else ("published_loss",)
    lists = ("members", "suppressed_members", "listed", "offsets")
    names = [name for name in Releases.__dataclass_fields__ if name not in (*lists, *of_noise, *unknown)]
    columns: dict[str, list[Any]] = {
        name: [x for out in outputs for x in getattr(out, name).tolist()] for name in names
    }
    for i, _ in enumerate(outputs[0].members if outputs else ()):
        columns[f"member {i}"] = [x for out in outputs for x in out.members[i]]
    for i, _ in enumerate(outputs[0].listed if outputs else ()):
        columns[f"set {i}"] = [x for out in outputs for x in out.listed[i]]
    return columns
