"""SUHDSA as an anonymization algorithm, with its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic.fields import FieldInfo

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext, add_algorithm
from crenel.anonymity.algorithms.batch.stored import ENTRIES
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.algorithms.suhdsa.outputs import REPAIRS, WINDOWS
from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaSettings
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.algorithms.suhdsa.stored import initial_snapshot, read
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.model.durations import format_duration
from crenel.anonymity.model.fields import setting
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.weights import describe_weights
from crenel.state.shard import StoredShard
from crenel.state.suhdsa import SuhdsaState


@add_algorithm
@setting
class Suhdsa(SuhdsaSettings, Algorithm):
    """SUHDSA with l-diversity: windows that are repaired by swap and merge before their release."""

    name: ClassVar[str] = "suhdsa"
    example: ClassVar[str] = "{tuples: 50}"
    state: ClassVar = ("suhdsa", SuhdsaState)
    entries: ClassVar[tuple[str, ...]] = (*ENTRIES, SEEN)
    counted: ClassVar = {
        "tuples_in": "tuples admitted",
        "released": "tuples released",
        "windows": "windows closed",
        "swaps": "groups repaired by a swap",
        "merges": "groups merged to repair them",
    }
    gauges: ClassVar = {
        "carried": lambda shards: sum(shard.carried for shard in shards),
        "target": lambda shards: max((shard.target for shard in shards), default=0),
    }
    outputs: ClassVar = (REPAIRS, WINDOWS)

    @classmethod
    def new(cls, context: ShardContext, number: int, key: bytes) -> Shard:
        return SuhdsaShard(context, initial_snapshot(context, number, key))

    @classmethod
    def restored(cls, context: ShardContext, stored: StoredShard, where: str) -> Shard:
        return SuhdsaShard(context, read(context, stored, where))

    @classmethod
    def compile(cls, privacy: Privacy) -> None:
        warm_up(cls(tuples=64, event_time=1000))

    @classmethod
    def summary(cls, counts: Mapping[str, int]) -> tuple[str, str, str]:
        repairs = f"repaired by swaps {counts['swaps']:,}, merges {counts['merges']:,}"
        return "windows", f"{counts['windows']:,}", repairs

    @classmethod
    def settings(cls) -> Iterator[tuple[str, FieldInfo]]:
        return ((path, field) for path, field in super().settings() if path != "delay.jitter")

    @property
    def delay_tuples(self) -> int | None:
        return self.longest_delay.tuples

    @property
    def delay_bounds(self) -> tuple[int | None, int | None]:
        return self.longest_delay.tuples, self.longest_delay.event_time

    @property
    def durations(self) -> dict[str, int]:
        own = {"event_time": self.event_time, "delay.event_time": self.longest_delay.event_time}
        return {path: time for path, time in own.items() if time is not None}

    @property
    def has_representative(self) -> bool:
        return self.output == "representative"

    def describe(self) -> Iterator[tuple[str, str]]:
        yield from self.longest_delay.describe()
        if self.tuples is not None:
            yield "tuples", f"{self.tuples} close a window"
        if self.event_time is not None:
            yield "event_time", f"{format_duration(self.event_time)} close a window"
        yield "distortion_weight", f"{self.distortion_weight:.6g}"
        yield "neighbors", str(self.neighbors)
        yield "growth_cap", f"{self.growth_cap:.6g}"
        yield "output", self.output
        yield "numeric", self.numeric
        yield "categorical", self.categorical
        yield "weights", describe_weights(self.weights)
        if (target := self.target) is not None:
            settings = f"smoothing {target.smoothing:.6g}, band {target.band:.6g}, dwell {target.dwell}"
            yield "target", f"from l to {target.most}; {settings}"
        if (adaptive := self.adaptive) is not None:
            settings = f"delay_weight {adaptive.delay_weight:.6g}, windows {adaptive.windows}"
            yield "adaptive", f"windows of {adaptive.least} to {self.tuples} tuples; {settings}"
