"""Candidate setting of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from crenel.anonymity.model.durations import format_duration
from crenel.anonymity.model.policy import SHARD_BY_SUBJECT
from crenel.evidence.sample import ReplaySetting


@dataclass(frozen=True)
class Point:
    """One setting.

    Attributes
    ----------
    algorithm : its name
    k, l : as of ``crenel.anonymity.model.privacy.Privacy``
    tuples, milliseconds : maximum delay in later tuples of the shard, and in event time; None: unbounded. For an
        algorithm with windows that carries tuples over to the next window, a window has half of it
    shards, by : as of ``crenel.anonymity.model.policy.Shards``
    further : values of further configuration fields by their dotted names
    """

    algorithm: str
    k: int
    l: int  # noqa: E741 - the field's own name for it
    tuples: int | None
    milliseconds: int | None
    shards: int = 1
    by: str = SHARD_BY_SUBJECT
    further: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, setting: ReplaySetting) -> Point:
        """Return the point of a setting; the division of a single shard counts as one by subject."""
        shards, delay = setting.shards, setting.algorithm.delay_bounds
        by = shards.by if shards.count > 1 else SHARD_BY_SUBJECT
        return cls(setting.algorithm.name, setting.privacy.k, setting.privacy.l, *delay, shards.count, by)

    @property
    def delay(self) -> str:
        """The delay bound, as a configuration writes it."""
        bounds = [] if self.tuples is None else [f"{self.tuples} tuples"]
        bounds += [] if self.milliseconds is None else [format_duration(self.milliseconds)]
        return ", ".join(bounds) or "all"

    @property
    def divided(self) -> str:
        """The division of the stream, in words."""
        return "1" if self.shards == 1 else f"{self.shards} by {self.by}"
