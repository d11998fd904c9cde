"""Command line and harness of the experiments."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.measure import update
from experiments import harness
from experiments.__main__ import EXPERIMENTS
from experiments.harness import (
    RESULTS,
    ROOT,
    Drawing,
    MissingDataError,
    Table,
    in_processes,
    mean_deviation,
    mean_interval,
    panels,
    seeds,
)


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    yield
    harness.configure(None, None)


def _results() -> Iterator[Table | Drawing]:
    table = Table("Title", ["seed"])
    for seed in seeds(5):
        table.add(seed)
    yield table

    def draw() -> object:
        figure, grid = panels(1, 1, (2, 2))
        grid[0, 0].plot([0, 1], [1, 0])
        return figure

    yield Drawing("line", draw)  # type: ignore[arg-type]


def test_an_experiment_prints_tables_and_writes_the_same_figure_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("a", "b"):
        harness.configure(2, tmp_path / folder)
        harness.present("it", _results())
        assert (tmp_path / folder / "it.md").read_text("utf-8").split() == capsys.readouterr().out.split()[:20]
    assert "| 1 |\n" in (tmp_path / "a" / "it.md").read_text("utf-8")
    assert "| 2 |\n" not in (tmp_path / "a" / "it.md").read_text("utf-8")
    drawn = (tmp_path / "a" / "line.svg").read_bytes()
    assert drawn == (tmp_path / "b" / "line.svg").read_bytes()
    assert b"<dc:date>" not in drawn


def test_an_update_replaces_one_table_and_keeps_the_comments_around_it(tmp_path: Path) -> None:
    results = tmp_path / "RESULTS.md"
    before = "## A\n\n### Title\n\n<!-- begin a -->\n{}<!-- end a -->\n\n### Title 2\n\n| seed |\n| --- |\n| 9 |\n"
    results.write_text(before.format("| seed |\n| --- |\n| 7 |\n| 8 |\n"), "utf-8")
    harness.configure(2, None)
    harness.present("it", [next(_results())], results)  # type: ignore[list-item]
    assert results.read_text("utf-8") == before.format("| seed |\n| --- |\n| 0 |\n| 1 |\n")
    assert not update(results, Table("Titl", ["seed"]))
    assert not update(results, Table("Another title", ["seed"]))


_PRINTED_ALONE = {
    "castleguard/quality.py": "k-NN on raw Pima rows",
    "kepsilon/causes.py": "",
    "kepsilon/noise.py": "Largest standard deviation|The least and the largest of all k",
    "kepsilon/stream.py": "Adult as a stream: loss|.+by the delay or the size of windows",
    "suhdsa/tables.py": "Time of a repair|Table 11",
}
"""Tables that RESULTS.md does not keep: beginnings of their titles, as patterns, by file."""


def _titles() -> dict[str, str]:
    """Return the titles of all tables in the source, as patterns, with the file of each."""
    found = {}
    for file in sorted((ROOT / "experiments").rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        calls = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)]
        titles = [call.args[0] for call in calls if call.func.id == "Table"]
        for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
            names = [argument.arg for argument in function.args.args]
            inside = {title.id for title in titles if isinstance(title, ast.Name) and title in [*ast.walk(function)]}
            for place in map(names.index, inside):
                titles += [call.args[place] for call in calls if call.func.id == function.name]
        for title in titles:
            if not isinstance(title, ast.Name):
                parts = title.values if isinstance(title, ast.JoinedStr) else [title]
                pattern = (re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in parts)
                found["".join(map(str, pattern))] = file.relative_to(ROOT / "experiments").as_posix()
    return found


def test_an_update_finds_the_tables_of_every_experiment() -> None:
    kept = re.findall(r"^### (.+)\n(?:(?!#).*\n)*?\|", RESULTS.read_text("utf-8"), re.MULTILINE)
    titles = _titles()
    assert len(titles) > 80
    missing = [
        (file, title)
        for title, file in titles.items()
        if not any(re.fullmatch(title, one) for one in kept)
        and not re.match(_PRINTED_ALONE.get(file, "$"), title.replace("\\", ""))
    ]
    assert missing == []
    assert [one for one in kept if not any(re.fullmatch(title, one) for title in titles)] == []


def test_missing_data_is_named() -> None:
    with pytest.raises(MissingDataError, match=r"it needs none/such\.csv in .*shared/data, which is not there"):
        harness.require("it", ["none/such.csv"])


def _number_of_seeds(given: int) -> tuple[int, int]:
    return given, len(seeds(5))


def test_every_process_has_the_seeds_of_the_command_line() -> None:
    harness.configure(3, None)
    assert list(in_processes(_number_of_seeds, [7, 8])) == [(7, 3), (8, 3)]


def test_statistics() -> None:
    assert mean_deviation([1.0, 2.0, 3.0], ".1f") == "2.0 ± 1.0"
    # Student's t with two degrees of freedom: 4.303 standard errors of 0.577.
    assert mean_interval([1.0, 2.0, 3.0], ".2f") == "2.00 ± 2.48"
    # Splits that share rows, with half as many test rows as training rows.
    assert mean_interval([1.0, 2.0, 3.0], ".2f", shared=0.5) == "2.00 ± 3.93"
    assert mean_interval([0.25]) == "0.250"


def test_every_experiment_has_a_sentence_and_its_function() -> None:
    for name, (summary, _, function) in EXPERIMENTS.items():
        assert summary.endswith("."), name
        module, _, called = function.partition(":")[0].rpartition(".")
        source = (ROOT / "experiments" / f"{module.replace('.', '/')}.py").read_text("utf-8")
        assert f"def {called}(" in source, name


def test_help_lists_every_experiment_without_importing_them() -> None:
    code = "import sys; sys.argv = ['x', '--help']\ntry:\n    from experiments.__main__ import main; main()\n"
    code += "except SystemExit:\n    print('pyflink' in sys.modules or 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.rstrip().endswith("False")
    assert all(f"  {name} " in done.stdout for name in EXPERIMENTS)
