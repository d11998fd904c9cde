"""Packages import only what stands to their right; ruff holds that the core imports no pyflink (pyproject.toml)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = ["jobs", "evidence", "operators", "anonymity", "state"]


def imported_packages(source: str) -> set[str]:
    """Top-level names that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("(relative)" if node.level else str(node.module).split(".")[0])
    return found


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_what_stands_to_its_right(package: str) -> None:
    forbidden = {*ORDER[: ORDER.index(package)], "(relative)", "tests", "benchmarks"}
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    wrong = {
        str(module.relative_to(ROOT)): sorted(found)
        for module in modules
        if (found := imported_packages(module.read_text(encoding="utf-8")) & forbidden)
    }
    assert wrong == {}


def test_an_import_is_found_wherever_it_stands() -> None:
    source = "import a.b, c\ndef f():\n    from d.e import g\n    from . import h\nif True:\n    import i as j\n"
    assert imported_packages(source) == {"a", "c", "d", "i", "(relative)"}
