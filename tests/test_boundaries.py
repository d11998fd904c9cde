"""Packages import only what stands to their right; ruff holds that the core imports no pyflink (pyproject.toml)."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from crenel.anonymity.builtin import PRIVACY_MODELS

ROOT = Path(__file__).parent.parent
ORDER = ["jobs", "evidence", "operators", "anonymity", "state"]
LAYERS = [
    *({"regions"}, {"algorithms"}, {"buffer", "algorithm"}, {"noise"}, {"privacy_models"}, {"space"}, {"model"}),
    {"compiled"},
]
"""Folders of ``anonymity/``, from the top down; ``algorithm.py`` is the extension point of algorithms."""


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


@pytest.mark.parametrize("package", [*ORDER, "benchmarks", "examples", "experiments", "tests"])
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
    front_door = {f"crenel.{path.stem}" for path in (ROOT / "crenel").glob("[!_]*.py")}
    assert front_door
    others = {"crenel", "(relative)", "tests", "benchmarks", "examples", "experiments"}
    forbidden = {*(f"crenel.{name}" for name in left), *others}
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    wrong = {
        str(module.relative_to(ROOT)): sorted(found)
        for module in modules
        # Jobs run the settings of the library, and the command line prints its results.
        if (
            found := imported_packages(module.read_text(encoding="utf-8"))
            & (forbidden if package == "jobs" else forbidden | front_door)
        )
    }
    assert wrong == {}


def test_the_library_imports_nothing_of_a_job() -> None:
    modules = [path for path in sorted((ROOT / "crenel").glob("*.py")) if path.stem != "flink"]  # which runs a job
    assert modules
    assert [path for path in modules if "crenel.jobs" in imported_packages(path.read_text(encoding="utf-8"))] == []


def test_no_code_but_its_own_file_and_its_formula_names_a_privacy_model() -> None:
    names = {model.name for model in PRIVACY_MODELS} - {"t"}  # which is also a letter of formats
    modules = [path for folder in (*ORDER, "docs/_ext") for path in sorted((ROOT / folder).rglob("*.py"))]
    wrong = {
        f"{path.relative_to(ROOT)}: {node.value}"
        for path in [*modules, *sorted((ROOT / "crenel").glob("*.py"))]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
        if "anonymity/privacy_models" not in str(path) and path.name != "formulas.py"
    }
    assert wrong == set()


@pytest.mark.parametrize(
    ("folder", "unseen"),
    [
        ("benchmarks", {"experiments"}),
        ("experiments", {"tests"}),
        ("examples", {"benchmarks", "experiments", "tests"}),
        ("tests", {"benchmarks", "experiments"}),
    ],
)
def test_folders_beside_the_product_import_only_what_they_may(folder: str, unseen: set[str]) -> None:
    modules = [path for path in sorted((ROOT / folder).rglob("*.py")) if ROOT / "tests" / "night" not in path.parents]
    assert modules
    assert [path for path in modules if imported_packages(path.read_text(encoding="utf-8")) & unseen] == []


def test_an_import_is_found_wherever_it_stands() -> None:
    source = "import a.b, c\ndef f():\n    from d.e import g\n    from . import h\nif True:\n    import i as j\n"
    source += "import crenel.k.l\nfrom crenel.m.n import o\nfrom crenel import p\n"
    assert imported_packages(source) == {"a", "c", "d", "i", "(relative)", "crenel.k", "crenel.m", "crenel.p"}


def imports_between_modules() -> dict[str, set[str]]:
    """Return which modules of the packages each one imports, wherever in it, by dotted names without ``crenel``."""
    files = [path for package in ORDER for path in sorted((ROOT / package).rglob("*.py"))]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}
    found: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("crenel"):
                module = str(node.module).removeprefix("crenel.")
                found[name].update(names.keys() & {module, *(f"{module}.{alias.name}" for alias in node.names)})
            elif isinstance(node, ast.Import):
                found[name].update(names.keys() & {alias.name.removeprefix("crenel.") for alias in node.names})
    return found


def test_no_modules_import_each_other_not_even_for_types() -> None:
    graph = imports_between_modules()
    try:
        TopologicalSorter({name: found - {name} for name, found in graph.items()}).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")


def test_verify_shares_nothing_with_the_core_but_settings() -> None:
    graph = imports_between_modules()
    modules = [name for name in graph if name.startswith("evidence.verify.")]
    assert modules
    shared = {other for name in modules for other in graph[name] if not other.startswith("evidence.")}
    assert {other for other in shared if not other.startswith("anonymity.model.")} == set()


def test_folders_of_the_core_import_only_layers_below_them() -> None:
    rank = {folder: number for number, layer in enumerate(LAYERS) for folder in layer}

    def layer(module: str) -> int | None:
        package, _, rest = module.partition(".")
        return rank.get(rest.partition(".")[0]) if package == "anonymity" else None

    wrong = [
        f"{name} imports {other}"
        for name, found in imports_between_modules().items()
        for other in found
        if (own := layer(name)) is not None and (below := layer(other)) is not None and below < own
    ]
    assert wrong == []
