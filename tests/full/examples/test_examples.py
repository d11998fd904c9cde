"""The examples, each in a process and a folder of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.launch import ROOT, environment

EXAMPLES = ROOT / "examples"
NOTEBOOK = """
import json, sys
import matplotlib
matplotlib.use("Agg")
cells = json.load(open(sys.argv[1], encoding="utf-8"))["cells"]
assert all(not cell.get("outputs") for cell in cells), "outputs are stored"
names = {}
for cell in cells:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), sys.argv[1], "exec"), names)
exec(sys.argv[2], names)
"""

EXTENSIONS = ("own_algorithm", "own_privacy_model")
CHECKS = {
    "dataframe": """
assert verdict.outcome == "holds", verdict.checks
assert result.summary.released > 2500, result.summary
assert attacks["success"].between(0, 1).all()
""",
    "compare": """
assert list(table.index) == ["castle", "nearest", "suhdsa", "mondrian", "ola"], table
assert (table["outcome of verify"] == "holds").all(), table
assert table["mean loss"].between(0, 1, inclusive="neither").all(), table
assert table["risk"].between(0, 0.1).all(), table
""",
}


def run(*command: str, cwd: Path) -> str:
    """Return the output of a Python process in a folder."""
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    tested = {f"{name}.ipynb" for name in CHECKS} | {f"{name}.py" for name in (*EXTENSIONS, "kafka_program")}
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix in (".ipynb", ".py")} == tested


@pytest.mark.parametrize("name", CHECKS)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    run("-c", NOTEBOOK, str(EXAMPLES / f"{name}.ipynb"), CHECKS[name], cwd=tmp_path)
    assert (tmp_path / "compare.png").is_file() == (name == "compare")


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_runs_as_a_program(name: str, tmp_path: Path) -> None:
    printed = run(str(EXAMPLES / f"{name}.py"), cwd=tmp_path)
    assert re.search(r"^released +[0-9]", printed, re.MULTILINE)
    assert "verify: holds" in printed
