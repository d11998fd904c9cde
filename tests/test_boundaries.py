"""Packages import only what stands to their right; ruff holds that the core imports no pyflink (pyproject.toml)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = ["jobs", "evidence", "operators", "anonymity", "state"]


def imported_packages(source: str) -> set[str]:
    """Return the packages that a module imports, wherever in it; those of ``crenel`` as ``crenel.x``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(package_of(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"crenel.{alias.name}" for alias in node.names] if node.module == "crenel" else [str(node.module)]
            found.update(["(relative)"] if node.level else map(package_of, names))
    return found


def package_of(module: str) -> str:
    return ".".join(module.split(".")[: 2 if module.startswith("crenel.") else 1])


@pytest.mark.parametrize("package", [*ORDER, "benchmarks", "tests"])
def test_packages_are_imported_from_crenel_alone(package: str) -> None:
    # By its bare name a module would be loaded a second time, with classes and state of its own.
    found = {
        str(module.relative_to(ROOT)): names
        for module in (ROOT / package).rglob("*.py")
        if (names := imported_packages(module.read_text(encoding="utf-8")) & {*ORDER})
    }
    assert found == {}


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_what_stands_to_its_right(package: str) -> None:
    left = ORDER[: ORDER.index(package)]
    forbidden = {*(f"crenel.{name}" for name in left), "crenel", "(relative)", "tests", "benchmarks"}
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
    source += "import crenel.k.l\nfrom crenel.m.n import o\nfrom crenel import p\n"
    assert imported_packages(source) == {"a", "c", "d", "i", "(relative)", "crenel.k", "crenel.m", "crenel.p"}
