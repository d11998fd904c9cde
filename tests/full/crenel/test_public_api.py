"""First uses of the package, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FIRST_USE = """
import sys, crenel, pyarrow as pa
settings = crenel.Settings(
    policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    privacy=crenel.Privacy(k=1),
    algorithm=crenel.Nearest(crenel.Delay(tuples=1)),
)
crenel.anonymize(pa.table({"age": [1]}), settings)
"""


def test_the_first_use_says_in_one_line_that_it_compiles(tmp_path: Path) -> None:
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "CRENEL_COMPILED": ""}
    process = subprocess.Popen([sys.executable, "-c", FIRST_USE], env=variables, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == (
            "crenel: compiling the algorithm for this machine, once; this takes about a minute\n"
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
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=True, timeout=300)
