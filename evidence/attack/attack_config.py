"""Settings and results of a set of attacks."""

from __future__ import annotations

from dataclasses import dataclass

from crenel.anonymity.model.errors import InputError
from crenel.evidence.attack.queries import Queries
from crenel.evidence.attack.result import Attack


class AttackError(InputError):
    """Error for inputs that leave nothing to attack; the message states the reason."""

    lead = ": "


@dataclass(frozen=True)
class Effort:
    """The attacks to run, and their effort.

    Attributes
    ----------
    seeds : replays, each with its own random choices, 1 or more
    targets : persons to re-identify per seed, at most
    within_rows : errors of the attacker's knowledge of arrival order, in tuples of the stream, 0 or more each
    within_time : errors of the attacker's knowledge of arrival times, in milliseconds of event time, 0 or more each
    known : numbers of attributes that a partially informed attacker knows
    draws : exchanges of sensitive values per seed, for the minimality attack
    tuples : tuples of the sample for the minimality attack, at most
    queries : range count queries per seed
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
    """The results of all attacks.

    Attributes
    ----------
    attacks : in the order of ``docs/evidence.md``
    queries : errors of range count queries on the same outputs
    released : number of rows that were attacked
    """

    attacks: tuple[Attack, ...]
    queries: Queries
    released: int
