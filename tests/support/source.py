"""Streams as a source has them, before anything of the project touched them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from crenel.state.block import NO_TIME

IDENTITY = "row"
"""The pass-through column that tells which tuple a published member is."""


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple.

    Attributes
    ----------
    values : quasi-identifiers in the order of the policy, a number or the label of a leaf
    published : sensitive and pass-through values in the order of ``Policy.members``; one of them is ``IDENTITY``
    subject : None where the policy names none
    event_time : epoch milliseconds
    """

    values: tuple[float | str, ...]
    published: tuple[Any, ...]
    subject: int | str | None = None
    event_time: int = NO_TIME


@dataclass(frozen=True)
class Push:
    """Tuples that come as one block, and the event time that has passed by then.

    ``passed``: the event time that had passed when each of them came; empty where the block does not say.
    """

    rows: tuple[Row, ...]
    watermark: int = NO_TIME
    passed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Advance:
    """Event time that passes."""

    watermark: int


@dataclass(frozen=True)
class Finish:
    """The end of the input."""


@dataclass(frozen=True)
class Forget:
    """Persons who are to be forgotten."""

    subjects: tuple[int | str, ...]


Step: TypeAlias = Push | Advance | Forget | Finish
