"""What was found: statements that hold, that are broken and where, and that nobody can see from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["holds", "broken", "unseen"]

HOLDS: Outcome = "holds"
BROKEN: Outcome = "broken"
UNSEEN: Outcome = "unseen"


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
    outcome : whether it holds of all that can be seen, is broken, or cannot be seen
    words : of what it was seen to hold, or why it cannot be seen
    findings : what breaks it
    """

    name: str
    outcome: Outcome
    words: str
    findings: tuple[Finding, ...] = ()


def judged(name: str, words: str, findings: list[Finding]) -> Check:
    """A statement that holds where nothing was found."""
    return Check(name, BROKEN if findings else HOLDS, words, tuple(findings))


def unseen(name: str, why: str) -> Check:
    """A statement that nobody can check from the outputs."""
    return Check(name, UNSEEN, why)


@dataclass(frozen=True)
class Verdict:
    """All statements about the outputs of one run.

    Attributes
    ----------
    checks : in the order in which they are told
    heads : by shard, the last release and its ``chain``: whoever keeps them finds out later whether rows at the end are
        missing; empty where there is no chain
    """

    checks: tuple[Check, ...]
    heads: dict[int, tuple[int, str]]

    @property
    def holds(self) -> bool:
        """Whether nothing is broken."""
        return all(check.outcome != BROKEN for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "holds": self.holds,
            "checks": [
                {
                    "name": check.name,
                    "outcome": check.outcome,
                    "words": check.words,
                    "findings": [vars(finding) for finding in check.findings],
                }
                for check in self.checks
            ],
            "heads": [
                {"shard": shard, "release": release, "chain": head}
                for shard, (release, head) in sorted(self.heads.items())
            ],
        }
