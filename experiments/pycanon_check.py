"""Comparison of privacy models in the core with pycanon, an independent library.

pycanon measures k, l and other parameters of a table. It needs a newer numpy than Crenel, so it is installed from PyPI
in a virtual environment of its own, and reads a file of classes and values. It counts rows; the streams here have one
row per person. Version 1.3.6 has two known differences. For recursive (c, l)-diversity it sorts the counts of values in
ascending order, where the paper has the largest first; so a second call sorts them in descending order (``c``; its own
result is ``plain``). Its entropy l is truncated after rounding, so an exact l may become l - 1. For t-closeness and
beta-likeness it returns the minimum t and beta, with all released rows as the reference and equal distances.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import isclose, nextafter
from pathlib import Path
from typing import Any

import numpy as np

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.builtin import ALPHA, BETA, ENTROPY_L, RECURSIVE, T
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.privacy_model import PrivacyModel
from crenel.anonymity.model.reference import Reference
from experiments.harness import Stream, Table, installed, pima_stream, replay, taxi_stream
from experiments.privacy_models import TUPLES, asking, with_occupation

PYCANON = "pycanon==1.3.6"
_ASKS = """
import json, sys
import numpy as np
import pandas as pd
from pycanon import anonymity
rows = pd.read_csv(sys.argv[1], dtype=str)
alpha, k = anonymity.alpha_k_anonymity(rows, ["class"], ["value"])
l = anonymity.l_diversity(rows, ["class"], ["value"])
mixed = anonymity.entropy_l_diversity(rows, ["class"], ["value"])
plain, _ = anonymity.recursive_c_l_diversity(rows, ["class"], ["value"])
rising = np.sort
np.sort = lambda counts: rising(counts)[::-1]
c, _ = anonymity.recursive_c_l_diversity(rows, ["class"], ["value"])
t = anonymity.t_closeness(rows, ["class"], ["value"])
beta = anonymity.basic_beta_likeness(rows, ["class"], ["value"])
found = {"t": float(t), "beta": float(beta), "k": int(k), "l": int(l), "entropy_l": int(mixed)}
found |= {"alpha": float(alpha), "c": float(c), "plain": float(plain)}
print(json.dumps({name: number for name, number in found.items() if number == number}))
"""


def classes(tuples: Stream, algorithm: Algorithm, privacy: Privacy) -> list[list[Any]]:
    """Return the sensitive values of each release of a stream."""
    found = []
    for out in replay(tuples, algorithm, privacy).releases:
        found += [out.members[0][a:b] for a, b in zip(out.offsets, out.offsets[1:], strict=False)]
    return found


def lacks(model: PrivacyModel, parameters: tuple[float, ...], released: list[list[Any]]) -> bool:
    """Return whether any release violates a privacy model, by the function that the algorithms compile."""
    for values in released:
        counts = np.array(sorted(Counter(values).values(), reverse=True), np.int64)
        if model.lacking(len(values), counts, np.array(parameters)) > 0.0:
            return True
    return False


def ours(released: list[list[Any]], other_result: dict[str, float]) -> dict[str, float | str]:
    """Return the strongest parameters that hold by the core; alpha must equal pycanon's to the last digit."""
    alpha, least = other_result["alpha"], min(len(set(values)) for values in released)
    exact = not lacks(ALPHA, (alpha,), released) and lacks(ALPHA, (nextafter(alpha, 0.0),), released)
    mixed = next(l for l in range(least, 0, -1) if not lacks(ENTROPY_L, (float(l),), released))  # noqa: E741
    c = 1.0
    while least > 1 and lacks(RECURSIVE, (c, float(least)), released):
        c += 1.0
    return {
        "k": min(map(len, released)),
        "l": least,
        "entropy_l": mixed,
        "alpha": alpha if exact else "another",
        **closest(released, other_result),
        **({"c": c} if least > 1 else {}),
    }


def closest(released: list[list[Any]], other_result: dict[str, float]) -> dict[str, float]:
    """Return the minimum t and beta, with all released rows as the reference; pycanon's value where they agree."""
    every = Counter(value for values in released for value in values)
    place, whole = {value: i for i, value in enumerate(every)}, sum(every.values())
    reference = Reference(tuple(map(str, every)), tuple(count / whole for count in every.values()))
    found = {"t": 0.0, "beta": 0.0}
    for values in released:
        counts = Counter(values)
        held = sorted(counts, key=lambda value: place[value])
        rows = np.array([place[value] for value in held], np.int64)
        of = np.array([counts[value] for value in held], np.int64)
        for model in (T, BETA):
            table = np.array(model.table(reference))
            found[model.name] = max(found[model.name], model.lacking(len(values), of, np.zeros(1), rows, table))
    return {
        name: other_result[name] if isclose(number, other_result[name], abs_tol=1e-6) else number
        for name, number in found.items()
    }


def _cell(own: float | str | None, other_result: float | None) -> str:
    if own == other_result:
        return "-" if own is None else str(own)
    return f"{own} ({other_result})"


def measured_by_pycanon(python: Path, released: list[list[Any]]) -> dict[str, float]:
    """Return the results of pycanon."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classes.csv"
        lines = [f"{i},v{value}" for i, values in enumerate(released) for value in values]
        path.write_text("\n".join(["class,value", *lines]) + "\n", encoding="utf-8")
        done = subprocess.run([python, "-c", _ASKS, path], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def results() -> Iterator[Table]:
    """Tabulate each stream, algorithm and privacy model."""
    trips, women = taxi_stream(), pima_stream()
    trips = replace(trips, policy=replace(trips.policy, subject=None), subject=None)
    columns = ("k", "l", "entropy_l", "alpha", "c", "t", "beta")
    table = Table(
        f"The core and {PYCANON}: the same number, or the core's (pycanon's)",
        ["stream", "algorithm", "privacy model", *columns, "c, pycanon's own"],
    )
    models: tuple[tuple[str, dict[str, Any]], ...] = (
        ("k", {}),
        ("alpha: 0.6", {"alpha": 0.6}),
        ("entropy_l: 1.9", {"entropy_l": 1.9}),
        ("recursive: {c: 2, l: 2}", {"recursive": {"c": 2.0, "l": 2}}),
        ("t: 0.4", {"t": 0.4}),
        ("beta: 3", {"beta": 3.0}),
    )
    with tempfile.TemporaryDirectory() as folder:
        python = installed(Path(folder), PYCANON)
        for name, tuples, k in (("Adult", with_occupation(), 10), ("taxi", trips, 10), ("Pima", women, 5)):
            algorithms: dict[str, Algorithm] = {"CASTLE": Castle(Delay(200)), "windows": Suhdsa(TUPLES)}
            for called, algorithm in {**algorithms, "Mondrian": Mondrian(Window(500))}.items():
                for model, further in models:
                    released = classes(tuples, algorithm, replace(asking(tuples, 1, further), k=k))
                    other_result = measured_by_pycanon(python, released)
                    found = ours(released, other_result)
                    cells = [_cell(found.get(column), other_result.get(column)) for column in columns]
                    table.add(name, called, model, *cells, f"{other_result.get('plain', '-')}")
    yield table
