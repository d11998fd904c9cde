"""The public names of the package, as a reviewer reads them, and their examples."""

from __future__ import annotations

import doctest
import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import crenel

MODULES = (
    "crenel.settings",
    "crenel.stream",
    "crenel.results",
    "crenel.assessment",
    "crenel.planning",
    "crenel.profiling",
)

FUNCTIONS = """
anonymize(data: 'Any', settings: 'Settings', *, lateness: 'Duration' = 0, row_numbers: 'bool' = False, repairs: 'bool' = False) -> 'Result'
attack(data: 'Any', settings: 'Settings', *, result: 'Result | None' = None, lateness: 'Duration' = 0, seeds: 'int' = 5, targets: 'int' = 1000, within_rows: 'Sequence[int]' = (0, 50), within_time: 'Sequence[Duration]' = ('1 min',)) -> 'AttackResults'
budget(settings: 'Settings', *, epsilons: 'Sequence[float] | None' = None, wanted: 'tuple[float, float] | None' = None) -> 'Budget'
load(path: 'str | Path', overrides: 'Sequence[str]' = ()) -> 'Settings'
open_stream(settings: 'Settings', *, lateness: 'Duration' = 0, row_numbers: 'bool' = False, snapshot: 'bytes | None' = None, repairs: 'bool' = False) -> 'Stream'
plan(data: 'Any', settings: 'Settings', *, max_loss: 'float | None' = None, max_delay: 'Delay | None' = None, max_suppressed: 'float | None' = None, min_k: 'int | None' = None, vary: 'Mapping[str, Sequence[Any]] | None' = None, replays: 'int' = 100, rows: 'int' = 50000, lateness: 'Duration' = 0, regions: 'str | Path | None' = None, processes: 'int | None' = 1) -> 'Plan'
profile(data: 'Any', *, rows: 'int' = 100000, k: 'int' = 10) -> 'Profile'
report(result: 'Result', settings: 'Settings', path: 'str | Path | None' = None, *, data: 'Any' = None, attacks: 'Sequence[AttackResults]' = (), name: 'str' = 'result', lateness: 'Duration' = 0) -> 'str'
verify(result: 'Result', settings: 'Settings') -> 'Verdict'
why(data: 'Any', settings: 'Settings', *, result: 'Result | None' = None, rows: 'int' = 50000, lateness: 'Duration' = 0) -> 'Explanation'
"""  # noqa: E501

CLASSES = """
Adaptive AttackResults Budget Castle Categorical Cells Confidence Contract CustomAlgorithm Dates Delay Explanation
Generalized Geohash H3 Ip Mask Mondrian Nearest NoiseWithinRelease Noised Numbers Numeric Ola Persons Plan Policy
Privacy Profile Pseudonym Quadkey Recursive Result SamplingAndNoise Sensitive Settings Shards Stream Suhdsa Summary
Target Times Tolerance Verdict Weekdays Window
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
    "Settings": "to_yaml validated",
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


FIRST_USE = """
import sys, crenel, pyarrow as pa
settings = crenel.Settings(
    policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    privacy=crenel.Privacy(k=1),
    algorithm=crenel.Nearest(crenel.Delay(tuples=1)),
)
crenel.anonymize(pa.table({"age": [1]}), settings)
"""


@pytest.mark.parametrize(
    ("version", "long"),
    [
        ("", "about a minute"),
        ("0.69.0", "many minutes with numba 0.69.0, and about one with the version that crenel requires"),
    ],
)
def test_the_first_use_says_in_one_line_that_it_compiles(version: str, long: str, tmp_path: Path) -> None:
    program = f"import numba; numba.__version__ = {version!r} or numba.__version__{FIRST_USE}"
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "CRENEL_COMPILED": ""}
    process = subprocess.Popen([sys.executable, "-c", program], env=variables, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == (
            f"crenel: compiling the algorithm for this machine, once; this takes {long}\n"
        )
    finally:
        process.kill()
        process.communicate()


def test_a_use_of_cached_code_prints_nothing() -> None:
    for _ in range(2):  # the first run fills the cache
        done = subprocess.run(
            [sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=300, check=True
        )
    assert (done.stdout, done.stderr) == ("", "")


def test_importing_the_package_imports_no_heavy_module_and_using_it_no_flink() -> None:
    program = """
import sys, crenel
heavy = {"numba", "numpy", "pandas", "pyarrow", "pydantic", "yaml"} & set(sys.modules)
assert not heavy, heavy
import pyarrow as pa
settings = crenel.Settings(
    policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    privacy=crenel.Privacy(k=1),
    algorithm=crenel.Nearest(crenel.Delay(tuples=1)),
)
data = pa.table({"age": [1, 2]})
result = crenel.anonymize(data, settings)
assert crenel.verify(result, settings).outcome == "holds"
assert crenel.attack(data, settings, result=result).to_arrow().num_rows
assert crenel.profile(data).rows == 2
assert crenel.load("conf/demo.yaml").privacy.k == 10
assert crenel.budget(crenel.load("conf/taxi-noise.yaml")).k == 10
assert "<h1>Published records: result</h1>" in crenel.report(result, settings)
crenel.plan, crenel.why
flink = {"apache_beam", "orjson", "psutil", "py4j", "pyflink", "rich", "typer"} & set(sys.modules)
assert not flink, flink
"""
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=True, timeout=300)
