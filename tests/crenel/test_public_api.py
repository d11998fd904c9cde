"""The public names of the package, as a reviewer reads them, and their examples."""

from __future__ import annotations

import doctest
import inspect
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import pytest

import crenel
from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.builtin import ALGORITHMS

MODULES = (
    "crenel.settings",
    "crenel.stream",
    "crenel.results",
    "crenel.assessment",
    "crenel.planning",
    "crenel.profiling",
)

FUNCTIONS = """
anonymize(data: 'Any', settings: 'Settings', *, lateness: 'DurationLike' = 0, row_numbers: 'bool' = False, repairs: 'bool' = False) -> 'Result'
attack(data: 'Any', settings: 'Settings', *, result: 'Result | None' = None, lateness: 'DurationLike' = 0, seeds: 'int' = 5, targets: 'int' = 1000, within_rows: 'Sequence[int]' = (0, 50), within_time: 'Sequence[DurationLike]' = ('1 min',)) -> 'AttackResults'
budget(settings: 'Settings', *, epsilons: 'Sequence[float] | None' = None, wanted: 'tuple[float, float] | None' = None) -> 'Budget'
load(path: 'str | Path', overrides: 'Sequence[str]' = ()) -> 'Settings'
open_stream(settings: 'Settings', *, lateness: 'DurationLike' = 0, row_numbers: 'bool' = False, snapshot: 'bytes | None' = None, repairs: 'bool' = False) -> 'Stream'
plan(data: 'Any', settings: 'Settings', *, max_loss: 'float | None' = None, max_delay: 'Delay | None' = None, max_suppressed: 'float | None' = None, min_k: 'int | None' = None, vary: 'Mapping[str, Sequence[Any]] | None' = None, replays: 'int' = 100, rows: 'int' = 50000, lateness: 'DurationLike' = 0, regions: 'str | Path | None' = None, processes: 'int | None' = 1) -> 'Plan'
profile(data: 'Any', *, rows: 'int' = 100000, k: 'int' = 10) -> 'Profile'
report(result: 'Result', settings: 'Settings', path: 'str | Path | None' = None, *, data: 'Any' = None, attacks: 'Sequence[AttackResults]' = (), name: 'str' = 'result', lateness: 'DurationLike' = 0) -> 'str'
verify(result: 'Result', settings: 'Settings | Sequence[Settings]') -> 'Verdict'
why(data: 'Any', settings: 'Settings', *, result: 'Result | None' = None, rows: 'int' = 50000, lateness: 'DurationLike' = 0) -> 'Explanation'
"""  # noqa: E501

CLASSES = """
Adaptive AttackResults Budget Castle Categorical Cells Confidence Contract Dates Delay Explanation
Generalized Geohash Groups H3 Ip Mask Mondrian Nearest NoiseWithinRelease Noised Numbers Numeric Ola Ordered
Persons Plan Policy Privacy Profile Pseudonym Quadkey Result SamplingAndNoise Sensitive Settings Shards Stream Suhdsa
Summary Target Times Tolerance Values Verdict Weekdays Window
"""

ERRORS = "AttackError ConfigError PolicyError PrivacyWarning ReportError StateError"

METHODS = {
    "Stream": "advance finish forget open push snapshot summary",
    "Result": "joined mapped",
    "Summary": "to_dict",
    "Verdict": "outcome to_arrow to_dict",
    "AttackResults": "figure to_arrow to_dict",
    "Budget": "figure to_arrow to_dict",
    "Explanation": "to_arrow to_dict",
    "Profile": "to_dict",
    "Settings": "admissions counts_event_time of_sections outputs sections to_yaml warnings",
}


def test_the_public_names_are_these() -> None:
    functions = [line.partition("(")[0] for line in FUNCTIONS.split("\n") if line]
    assert sorted(crenel.__all__) == sorted([*functions, *CLASSES.split(), *ERRORS.split(), "Algorithm"])
    assert set(crenel.__all__) <= set(dir(crenel))
    for name in crenel.__all__:
        found = getattr(crenel, name)
        assert name == "Algorithm" or inspect.getdoc(found), name
    with pytest.raises(AttributeError, match="has no attribute 'anonymise'"):  # codespell:ignore
        crenel.anonymise  # codespell:ignore  # noqa: B018


def test_their_signatures_are_these() -> None:
    functions = [line.partition("(")[0] for line in FUNCTIONS.split("\n") if line]
    found = [f"{name}{inspect.signature(getattr(crenel, name))}" for name in functions]
    assert found == [line for line in FUNCTIONS.split("\n") if line]
    for name, methods in METHODS.items():
        own = [method for method in vars(getattr(crenel, name)) if not method.startswith("_")]
        fields = getattr(getattr(crenel, name), "__dataclass_fields__", {})
        assert sorted(set(own) - set(fields)) == methods.split(), name


def test_signatures_show_types_without_what_validates_them() -> None:
    classes: list[Any] = [found for name in crenel.__all__ if is_dataclass(found := getattr(crenel, name))]
    assert len(classes) > 20
    shown = {of: f"{inspect.signature(of)}{inspect.signature(of.__init__)}" for of in classes}
    assert [of for of, signature in shown.items() if "Annotated" in signature] == []
    assert "delay: crenel.anonymity.model.delay.Delay, loss_window: int = 100, " in shown[crenel.Castle]


def test_the_names_inside_a_program_are_these() -> None:
    pytest.importorskip("pyflink")
    from crenel import flink

    assert sorted(flink.__all__) == ["Outputs", "anonymize", "execute"]
    assert str(inspect.signature(flink.anonymize)) == (
        "(t_env: 'StreamTableEnvironment', table: 'Table', settings: 'Settings', *, name: 'str', "
        "delivery: \"Literal['checked', 'caller']\" = 'checked', forget: 'Table | None' = None, "
        "audit_chain: 'str | bytes | Mapping[str, str] | None' = None, repairs: 'bool' = False) -> 'Outputs'"
    )
    signature = "(t_env: 'StreamTableEnvironment', statement_set: 'StatementSet') -> 'JobClient'"
    assert str(inspect.signature(flink.execute)) == signature
    own = [name for name in vars(flink.Outputs) if not name.startswith("_")]
    assert sorted(own) == ("audit columns forgotten further insert_into rejected released summary suppressed".split())


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str) -> None:
    found = doctest.testmod(import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0
    assert found.attempted > 0 or module == "crenel.results"


def test_each_algorithm_that_comes_with_crenel_has_a_public_class() -> None:
    own = {name: of for name, of in known_algorithms().items() if of.__module__.startswith("crenel.")}
    assert {*own.values()} == {*ALGORITHMS}
    assert all(getattr(crenel, of.__name__) is of for of in own.values())
