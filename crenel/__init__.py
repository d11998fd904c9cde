"""Crenel anonymizes a stream of personal data while it flows.

``anonymize`` and ``open_stream`` work within a Python process, without Flink. The command ``crenel run`` runs the same
settings as a Flink job.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from crenel.anonymity.model.errors import PolicyError as PolicyError
    from crenel.assessment import attack as attack
    from crenel.assessment import budget as budget
    from crenel.assessment import verify as verify
    from crenel.evidence.attack.result import AttackError as AttackError
    from crenel.evidence.attack.result import AttackResults as AttackResults
    from crenel.evidence.budget import Budget as Budget
    from crenel.evidence.profile.profile import Profile as Profile
    from crenel.evidence.report.context import ReportError as ReportError
    from crenel.evidence.verify.verdict import Verdict as Verdict
    from crenel.evidence.why.explanation import Explanation as Explanation
    from crenel.jobs.config.file import ConfigError as ConfigError
    from crenel.planning import Plan as Plan
    from crenel.planning import plan as plan
    from crenel.planning import why as why
    from crenel.profiling import profile as profile
    from crenel.reporting import report as report
    from crenel.results import Result as Result
    from crenel.results import Summary as Summary
    from crenel.settings import *  # noqa: F403
    from crenel.state.codec import StateError as StateError
    from crenel.stream import Stream as Stream
    from crenel.stream import anonymize as anonymize
    from crenel.stream import open_stream as open_stream

_NAMES = {
    **dict.fromkeys(("anonymize", "open_stream", "Stream"), "crenel.stream"),
    **dict.fromkeys(("Result", "Summary"), "crenel.results"),
    **dict.fromkeys(
        (
            *("Settings", "load", "Policy", "Numeric", "Categorical", "Noised", "Generalized", "Pseudonym", "Contract"),
            *("Numbers", "Mask", "Dates", "Ip", "Times", "Weekdays", "Geohash", "Quadkey", "H3"),
            *("Privacy", "Sensitive", "Recursive", "Persons"),
            *("Algorithm", "Castle", "Nearest", "Suhdsa", "Mondrian", "Ola", "Cells", "CustomAlgorithm"),
            *("Delay", "Window", "Target", "Adaptive"),
            *("SamplingAndNoise", "Tolerance", "NoiseWithinRelease", "Confidence", "Shards"),
            "PrivacyWarning",
        ),
        "crenel.settings",
    ),
    **dict.fromkeys(("verify", "attack", "budget"), "crenel.assessment"),
    "Verdict": "crenel.evidence.verify.verdict",
    **dict.fromkeys(("AttackResults", "AttackError"), "crenel.evidence.attack.result"),
    "Budget": "crenel.evidence.budget",
    **dict.fromkeys(("plan", "Plan", "why"), "crenel.planning"),
    "Explanation": "crenel.evidence.why.explanation",
    "report": "crenel.reporting",
    "ReportError": "crenel.evidence.report.context",
    "profile": "crenel.profiling",
    "Profile": "crenel.evidence.profile.profile",
    "ConfigError": "crenel.jobs.config.file",
    "PolicyError": "crenel.anonymity.model.errors",
    "StateError": "crenel.state.codec",
}
"""Module of each public name, imported at its first use: numba, pandas and pyarrow take a second to import."""

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'crenel' has no attribute {name!r}")
    value = getattr(import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
