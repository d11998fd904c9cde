"""What is tried, how hard, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass

from crenel.anonymity.model.errors import InputError
from crenel.evidence.attack.queries import Queries
from crenel.evidence.attack.result import Attack


class AttackError(InputError):
    """There is nothing to attack; the message says why."""

    lead = ": "


@dataclass(frozen=True)
class Effort:
    """What is tried, and how hard.

    Attributes
    ----------
    seeds : replays, each with random choices of its own, 1 or more
    targets : people that are looked for with each seed, at most
    within_rows : by how many tuples of the stream the observer may be wrong about when somebody came, 0 or more each
    within_time : the same in milliseconds of event time
    known : how many attributes are known, where not all are
    draws : how often values are exchanged to see why a group was formed, with each seed
    tuples : of the sample at most for that
    queries : counts of ranges, with each seed
    """

    seeds: int = 5
    targets: int = 1000
    within_rows: tuple[int, ...] = (0, 50)
    within_time: tuple[int, ...] = (60_000,)
    known: tuple[int, ...] = (1, 2, 3)
    draws: int = 20
    tuples: int = 1000
    queries: int = 200


@dataclass(frozen=True)
class Found:
    """What all attacks came to.

    Attributes
    ----------
    attacks : in the order of ``docs/evidence.md``
    queries : how wrong counts of ranges come out, of the same outputs
    released : rows that were attacked
    """

    attacks: tuple[Attack, ...]
    queries: Queries
    released: int
