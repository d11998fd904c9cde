"""Outcomes of verification: statements that hold, are broken, were not checked, or that no output shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Outcome = Literal["holds", "broken", "unchecked", "unseen"]

HOLDS: Outcome = "holds"
BROKEN: Outcome = "broken"
UNCHECKED: Outcome = "unchecked"
"""An output is missing that would show whether the statement holds, or the formula of a privacy model."""

UNSEEN: Outcome = "unseen"
"""No output shows whether the statement holds, or the configuration requests no output that does."""


@dataclass(frozen=True)
class Finding:
    """One violation of a statement.

    Attributes
    ----------
    text : the violation in words, without any value of a record
    shard, release : the release in violation; None where the violation concerns none
    """

    text: str
    shard: int | None = None
    release: int | None = None

    def __str__(self) -> str:
        if self.shard is None:
            return self.text
        return f"shard {self.shard}{'' if self.release is None else f', release {self.release}'}: {self.text}"


def at_releases(audit: pa.Table, wrong: NDArray[np.bool_], text: str) -> list[Finding]:
    """Return a finding for each row of an audit log that violates a statement; ``wrong``: (rows,) whether it does."""
    rows = audit.filter(pa.array(wrong)).select(["shard", "release_id"]).to_pylist()
    return [Finding(text, row["shard"], row["release_id"]) for row in rows]


@dataclass(frozen=True)
class Check:
    """One statement about the outputs.

    Attributes
    ----------
    name : such as ``k`` or ``l of diagnosis``
    outcome : whether the statement holds as far as outputs show, is broken, was not checked, or is in no output
    words : the scope of the check, or the reason why there was none
    findings : violations
    """

    name: str
    outcome: Outcome
    words: str
    findings: tuple[Finding, ...] = ()


def judged(name: str, words: str, findings: list[Finding]) -> Check:
    """Return a statement that holds if there are no findings."""
    return Check(name, BROKEN if findings else HOLDS, words, tuple(findings))


def unchecked(name: str, why: str) -> Check:
    """Return a statement that was not checked, as an output or a formula is missing."""
    return Check(name, UNCHECKED, why)


def unseen(name: str, why: str) -> Check:
    """Return a statement that the outputs cannot show."""
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
        """Event time in UTC, rounded down to the minute, because milliseconds would disclose a record's value."""
        if self.event_time is None:
            return None
        return str(np.datetime64(self.event_time, "ms").astype("datetime64[m]")).replace("T", " ")

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain values."""
        stated = {"shard": self.shard, "release": self.release, "chain": self.chain}
        return stated | {"closing": self.closing, "event_time": self.minute}


@dataclass(frozen=True)
class Verdict:
    """All statements about the outputs of one run.

    Attributes
    ----------
    checks : in the order in which they are reported
    heads : the end of each shard's chain, empty without a chain; an auditor who keeps them can detect truncation later
    """

    checks: tuple[Check, ...]
    heads: tuple[Head, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The worst outcome: broken if any statement is, else unchecked if any is, else holds."""
        outcomes = {check.outcome for check in self.checks}
        return next((outcome for outcome in (BROKEN, UNCHECKED) if outcome in outcomes), HOLDS)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome, the checks and the heads as plain values."""
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
            "heads": [head.to_dict() for head in self.heads],
        }

    def to_arrow(self) -> pa.Table:
        """Return one row per statement: its name, outcome, scope, and number of findings."""
        return pa.table(
            {
                "statement": [check.name for check in self.checks],
                "outcome": [check.outcome for check in self.checks],
                "scope": [check.words for check in self.checks],
                "findings": pa.array([len(check.findings) for check in self.checks], pa.int64()),
            }
        )
