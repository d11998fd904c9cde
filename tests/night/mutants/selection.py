"""Choice of mutants, and of the tests that each of them meets."""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from tests.night.mutants.rules import RULES, Mutant, mutants_of

QUOTAS = {
    ("anonymity", True): 50,
    ("anonymity", False): 10,
    ("operators", False): 10,
    ("state", False): 10,
    ("jobs/config", False): 10,
    ("jobs/pipeline", False): 10,
}
"""How many mutants each folder has; the flag tells whether numba compiles what is changed."""

_IMPORTING = ("jobs", "evidence", "operators", "anonymity", "state", "benchmarks", "experiments", "tests")


def choose(root: Path, seed: int) -> list[Mutant]:
    """Return the mutants of a seed: each rule in turn, at most one per function, as far as quotas go.

    A mutant's rank is a hash of its key, so a change of one file leaves the choice in others nearly as it was. The
    order is such that any first part has mutants of all folders.
    """
    chosen: list[tuple[float, Mutant]] = []
    for (folder, compiled), quota in QUOTAS.items():
        ranked: dict[str, list[Mutant]] = {rule: [] for rule in RULES}
        for path in sorted((root / folder).rglob("*.py")):
            for mutant in mutants_of(path.relative_to(root).as_posix(), path.read_bytes()):
                if mutant.compiled == compiled:
                    ranked[mutant.rule].append(mutant)
        for mutants in ranked.values():
            mutants.sort(key=lambda mutant: _rank(mutant, seed))
        spread = list(_one_per_function(ranked, quota))
        chosen += [((number + 0.5) / len(spread), mutant) for number, mutant in enumerate(spread)]
    return [mutant for _, mutant in sorted(chosen, key=lambda each: (each[0], each[1].key))]


def _rank(mutant: Mutant, seed: int) -> bytes:
    return blake2b(f"{seed} {mutant.key}".encode(), digest_size=8).digest()


def _one_per_function(ranked: Mapping[str, list[Mutant]], quota: int) -> Iterator[Mutant]:
    taken: set[tuple[str, str]] = set()
    waiting = {rule: deque(mutants) for rule, mutants in ranked.items()}
    while quota and any(waiting.values()):
        for mutants in waiting.values():
            while mutants and (mutants[0].file, mutants[0].function) in taken:
                mutants.popleft()
            if mutants and quota:
                mutant = mutants.popleft()
                taken.add((mutant.file, mutant.function))
                quota -= 1
                yield mutant


def _module(path: Path) -> str:
    """Return the name by which code imports a file of ours."""
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    return name if path.parts[0] in ("benchmarks", "experiments", "tests") else f"crenel.{name}"


class ImportGraph:
    """Imports between our files, read from their text.

    A text that is the name of a module counts as its import: configurations name extensions that way.
    """

    def __init__(self, root: Path) -> None:
        paths = [path.relative_to(root) for package in _IMPORTING for path in sorted((root / package).rglob("*.py"))]
        self._files = {_module(path): path.as_posix() for path in paths}
        self._importers: defaultdict[str, set[str]] = defaultdict(set)
        for importer in self._files.values():
            for name in _imported(ast.parse((root / importer).read_bytes())):
                if name in self._files:
                    self._importers[self._files[name]].add(importer)

    def tests_of(self, file: str) -> dict[str, int]:
        """Return the test files that import a file, directly or not, with the length of the shortest way."""
        distance = {file: 0}
        waiting = deque([file])
        while waiting:
            imported = waiting.popleft()
            for importer in self._importers[imported] - distance.keys():
                distance[importer] = distance[imported] + 1
                waiting.append(importer)
        tests = (path for path in distance if Path(path).name.startswith("test_"))
        return {path: distance[path] for path in tests if not path.startswith("tests/night/")}


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        else:
            continue
        for name in names:  # importing a module runs the packages above it
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def plan(
    mutant: Mutant, tests: Mapping[str, int], seconds: Mapping[str, float], limit: float, first: Iterable[str] = ()
) -> Sequence[str]:
    """Return the tests that a mutant meets, the nearest first.

    The nearest are those of the file of its name, then of its folder, then those with the shortest chain of imports;
    of equally near files, the quickest.

    Parameters
    ----------
    tests : test files that reach the mutant, as ``ImportGraph.tests_of`` has them
    seconds : of each test, without a mutant
    limit : seconds of all tests together
    first : tests that come before all others
    """
    path = Path(mutant.file)
    folder = Path("tests") / path.parent
    of_file: defaultdict[str, float] = defaultdict(float)
    for test, taken in seconds.items():
        of_file[test.partition("::")[0]] += taken

    def nearness(test: str) -> tuple[bool, bool, int, float, str]:
        file = test.partition("::")[0]
        in_folder = Path(file).parent == folder
        is_mirror = in_folder and Path(file).stem == f"test_{path.stem}"
        return not is_mirror, not in_folder, tests[file], of_file[file], file

    reaching = sorted((test for test in seconds if test.partition("::")[0] in tests), key=nearness)
    chosen, left = [], limit
    for test in dict.fromkeys([*(test for test in first if test in seconds), *reaching]):
        if seconds[test] <= left:
            chosen.append(test)
            left -= seconds[test]
    return chosen
