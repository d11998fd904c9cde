"""Counters of every shard, declared once.

Stored state, the counters in memory, metrics and the summary of a run follow from these fields ("How do I add a counter
to all shards?" in docs/project/development.md). Compiled code imports this module, and no other of ``state``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Declaration:
    """Appearance of a counter outside the shard; each one is a metric of its name.

    Attributes
    ----------
    name : name of the field, the stored column and the metric
    needs : field of ``crenel.anonymity.model.privacy.Privacy`` that must not be None for the counter to exist; empty:
        the counter always exists
    label, words : line in the summary of a run, where ``{share}`` stands for the share of released tuples; without a
        label the counter has no line
    """

    name: str
    needs: str
    label: str
    words: str

    def exists(self, privacy: Any) -> bool:
        """Return whether shards under these privacy settings have the counter."""
        return not self.needs or getattr(privacy, self.needs) is not None


def counter(*, needs: str = "", label: str = "", words: str = "") -> Any:
    """Return a dataclass field that declares a counter; the parameters are those of ``Declaration``."""
    return field(default=0, metadata={"needs": needs, "label": label, "words": words})


def declared(counters: type) -> Iterator[Declaration]:
    """Yield the counters that a dataclass declares."""
    for attribute in fields(counters):
        if attribute.metadata:
            yield Declaration(attribute.name, **attribute.metadata)


@dataclass(frozen=True, kw_only=True)
class CounterState:
    """Stored counters of a shard over its lifetime.

    The column of a counter is stored while the counter is not 0. State without the column reads as 0, so a new counter
    needs no new format version.

    Attributes
    ----------
    released : number of released tuples
    longest_delay : maximum delay so far, in later tuples of the shard
    loss_sum : InfoLoss summed over released tuples
    suppressed : number of suppressed tuples by reason (``crenel.anonymity.model.privacy.Privacy.reasons``)
    linked : number of released tuples whose published noised values are nearest to an original of their own subject,
        among the originals of the same release
    forgotten : number of buffered tuples that were erased with their persons
    """

    released: int = 0
    longest_delay: int = 0
    loss_sum: float = 0.0
    suppressed: dict[str, int] = field(default_factory=dict)
    linked: int = counter(
        needs="noise_within_release", label="linked", words="{share}: noised values nearest to their own subject's"
    )
    forgotten: int = counter()


WHOLE = tuple(f.name for f in fields(CounterState) if f.type == "int")
"""Whole numbers among the stored counters."""

REAL = tuple(f.name for f in fields(CounterState) if f.type == "float")
"""Other numbers among the stored counters."""
