"""Statements about outputs: those that hold or are broken, those that were not checked, those that no output shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Outcome = Literal["holds", "broken", "unchecked", "unseen"]

HOLDS: Outcome = "holds"
BROKEN: Outcome = "broken"
UNCHECKED: Outcome = "unchecked"
"""An output is missing by which the statement would have been checked."""

UNSEEN: Outcome = "unseen"
"""No output shows whether the statement holds, or it was not asked for one that does."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes
    ----------
    text : what, with no value of a record
    shard, release : of which release; None where it is of none
    """

    text: str
    shard: int | None = None
    release: int | None = None

    def __str__(self) -> str:
        if self.shard is None:
            return self.text
        return f"shard {self.shard}{'' if self.release is None else f', release {self.release}'}: {self.text}"


@dataclass(frozen=True)
class Check:
    """One statement about the outputs.

    Attributes
    ----------
    name : such as ``k`` or ``l of diagnosis``
    outcome : whether it holds of all that can be seen, is broken, was not checked, or cannot be seen
    words : of what it was seen to hold, or why it was not checked or cannot be seen
    findings : what breaks it
    """

    name: str
    outcome: Outcome
    words: str
    findings: tuple[Finding, ...] = ()


def judged(name: str, words: str, findings: list[Finding]) -> Check:
    """A statement that holds where nothing was found."""
    return Check(name, BROKEN if findings else HOLDS, words, tuple(findings))


def unchecked(name: str, why: str) -> Check:
    """Return a statement that was not checked, as an output is missing that would show it."""
    return Check(name, UNCHECKED, why)


def unseen(name: str, why: str) -> Check:
    """A statement that nobody can check from the outputs."""
    return Check(name, UNSEEN, why)


@dataclass(frozen=True)
class Head:
    """The last row of a shard's chain.

    Attributes
    ----------
    shard, release, chain : of the row; a closing record has the id of the release that would follow it
    closing : whether it is a closing record
    event_time : of the newest member, epoch milliseconds; None where it has none
    """

    shard: int
    release: int
    chain: str
    closing: bool = False
    event_time: int | None = None

    @property
    def minute(self) -> str | None:
        """Event time in UTC, rounded down to the minute: to the millisecond it would be a value of a record."""
        if self.event_time is None:
            return None
        return str(np.datetime64(self.event_time, "ms").astype("datetime64[m]")).replace("T", " ")

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        told = {"shard": self.shard, "release": self.release, "chain": self.chain}
        return told | {"closing": self.closing, "event_time": self.minute}


@dataclass(frozen=True)
class Verdict:
    """All statements about the outputs of one run.

    Attributes
    ----------
    checks : in the order in which they are told
    heads : the end of the chain of each shard: an auditor who keeps them finds out later whether rows at the end are
        missing; empty where there is no chain
    """

    checks: tuple[Check, ...]
    heads: tuple[Head, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Broken where any statement is, else unchecked where any is, else that all holds which outputs show."""
        outcomes = {check.outcome for check in self.checks}
        return next((outcome for outcome in (BROKEN, UNCHECKED) if outcome in outcomes), HOLDS)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "holds": self.outcome == HOLDS,
            "outcome": self.outcome,
            "checks": [
                {
                    "name": check.name,
                    "outcome": check.outcome,
                    "words": check.words,
                    "findings": [vars(finding) for finding in check.findings],
                }
                for check in self.checks
            ],
            "heads": [head.as_json() for head in self.heads],
        }
