"""Command line and harness of the experiments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.measure import update
from experiments import harness
from experiments.__main__ import EXPERIMENTS
from experiments.harness import (
    ROOT,
    Drawing,
    MissingDataError,
    Table,
    in_processes,
    mean_deviation,
    mean_interval,
    mean_range,
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


def test_missing_data_is_named() -> None:
    with pytest.raises(MissingDataError, match=r"it needs none/such\.csv in .*shared/data, which is not there"):
        harness.require("it", ["none/such.csv"])


def _number_of_seeds(given: int) -> tuple[int, int]:
    return given, len(seeds(5))


def test_every_process_has_the_seeds_of_the_command_line() -> None:
    harness.configure(3, None)
    assert list(in_processes(_number_of_seeds, [7, 8])) == [(7, 3), (8, 3)]


def test_statistics() -> None:
    assert mean_range([0.1, 0.2, 0.6]) == "0.300 (0.100 to 0.600)"
    assert mean_deviation([1.0, 2.0, 3.0], ".1f") == "2.0 ± 1.0"
    # Student's t with two degrees of freedom: 4.303 standard errors of 0.577.
    assert mean_interval([1.0, 2.0, 3.0], ".2f") == "2.00 ± 2.48"
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
