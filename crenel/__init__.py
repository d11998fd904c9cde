"""Crenel anonymizes a stream of personal data while it flows.

``anonymize`` and ``open_stream`` work within a Python process, without Flink. The command ``crenel run`` runs the same
settings as a Flink job.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0.dev0"

if TYPE_CHECKING:
    from crenel.anonymity.algorithm import Algorithm as Algorithm
    from crenel.anonymity.algorithms.castle.algorithm import Castle as Castle
    from crenel.anonymity.algorithms.cells.algorithm import Cells as Cells
    from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian as Mondrian
    from crenel.anonymity.algorithms.nearest.algorithm import Nearest as Nearest
    from crenel.anonymity.algorithms.ola.algorithm import Ola as Ola
    from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa as Suhdsa
    from crenel.anonymity.algorithms.suhdsa.parameters import Adaptive as Adaptive
    from crenel.anonymity.algorithms.suhdsa.parameters import Target as Target
    from crenel.anonymity.model.attributes import Categorical as Categorical
    from crenel.anonymity.model.attributes import Generalized as Generalized
    from crenel.anonymity.model.attributes import Noised as Noised
    from crenel.anonymity.model.attributes import Numeric as Numeric
    from crenel.anonymity.model.builders.addresses import Ip as Ip
    from crenel.anonymity.model.builders.cells import Geohash as Geohash
    from crenel.anonymity.model.builders.cells import Quadkey as Quadkey
    from crenel.anonymity.model.builders.dates import Dates as Dates
    from crenel.anonymity.model.builders.hexagons import H3 as H3
    from crenel.anonymity.model.builders.lists import Groups as Groups
    from crenel.anonymity.model.builders.lists import Ordered as Ordered
    from crenel.anonymity.model.builders.lists import Values as Values
    from crenel.anonymity.model.builders.mask import Mask as Mask
    from crenel.anonymity.model.builders.numbers import Numbers as Numbers
    from crenel.anonymity.model.builders.times import Times as Times
    from crenel.anonymity.model.builders.times import Weekdays as Weekdays
    from crenel.anonymity.model.delay import Delay as Delay
    from crenel.anonymity.model.delay import Window as Window
    from crenel.anonymity.model.errors import ConfigError as ConfigError
    from crenel.anonymity.model.errors import PolicyError as PolicyError
    from crenel.anonymity.model.policy import Contract as Contract
    from crenel.anonymity.model.policy import Policy as Policy
    from crenel.anonymity.model.policy import Pseudonym as Pseudonym
    from crenel.anonymity.model.policy import Shards as Shards
    from crenel.anonymity.model.privacy import Confidence as Confidence
    from crenel.anonymity.model.privacy import NoiseWithinRelease as NoiseWithinRelease
    from crenel.anonymity.model.privacy import Persons as Persons
    from crenel.anonymity.model.privacy import Privacy as Privacy
    from crenel.anonymity.model.privacy import SamplingAndNoise as SamplingAndNoise
    from crenel.anonymity.model.privacy import Sensitive as Sensitive
    from crenel.anonymity.model.privacy import Tolerance as Tolerance
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
    from crenel.planning import Plan as Plan
    from crenel.planning import plan as plan
    from crenel.planning import why as why
    from crenel.profiling import profile as profile
    from crenel.reporting import report as report
    from crenel.results import Result as Result
    from crenel.results import Summary as Summary
    from crenel.settings import PrivacyWarning as PrivacyWarning
    from crenel.settings import Settings as Settings
    from crenel.settings import load as load
    from crenel.state.codec import StateError as StateError
    from crenel.stream import Stream as Stream
    from crenel.stream import anonymize as anonymize
    from crenel.stream import open_stream as open_stream

_MODEL = "crenel.anonymity.model"
_BUILDERS = f"{_MODEL}.builders"
_ALGORITHMS = "crenel.anonymity.algorithms"

_NAMES = {
    **dict.fromkeys(("anonymize", "open_stream", "Stream"), "crenel.stream"),
    **dict.fromkeys(("Result", "Summary"), "crenel.results"),
    **dict.fromkeys(("Settings", "load", "PrivacyWarning"), "crenel.settings"),
    **dict.fromkeys(("Policy", "Pseudonym", "Contract", "Shards"), f"{_MODEL}.policy"),
    **dict.fromkeys(("Numeric", "Categorical", "Noised", "Generalized"), f"{_MODEL}.attributes"),
    **{"Numbers": f"{_BUILDERS}.numbers", "Mask": f"{_BUILDERS}.mask", "Dates": f"{_BUILDERS}.dates"},
    **dict.fromkeys(("Values", "Groups", "Ordered"), f"{_BUILDERS}.lists"),
    **{"Ip": f"{_BUILDERS}.addresses", "H3": f"{_BUILDERS}.hexagons"},
    **dict.fromkeys(("Times", "Weekdays"), f"{_BUILDERS}.times"),
    **dict.fromkeys(("Geohash", "Quadkey"), f"{_BUILDERS}.cells"),
    **dict.fromkeys(("Privacy", "Sensitive", "Persons", "NoiseWithinRelease", "Confidence"), f"{_MODEL}.privacy"),
    **dict.fromkeys(("SamplingAndNoise", "Tolerance"), f"{_MODEL}.privacy"),
    **dict.fromkeys(("Delay", "Window"), f"{_MODEL}.delay"),
    "Algorithm": "crenel.anonymity.algorithm",
    "Castle": f"{_ALGORITHMS}.castle.algorithm",
    "Nearest": f"{_ALGORITHMS}.nearest.algorithm",
    "Suhdsa": f"{_ALGORITHMS}.suhdsa.algorithm",
    **dict.fromkeys(("Target", "Adaptive"), f"{_ALGORITHMS}.suhdsa.parameters"),
    "Mondrian": f"{_ALGORITHMS}.mondrian.algorithm",
    "Ola": f"{_ALGORITHMS}.ola.algorithm",
    "Cells": f"{_ALGORITHMS}.cells.algorithm",
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
    **dict.fromkeys(("ConfigError", "PolicyError"), f"{_MODEL}.errors"),
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
