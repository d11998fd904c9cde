"""What the core says of its releases beside what pycanon finds in them (``python -m benchmarks.judge``).

pycanon is a library that tells of a table which k, l and so on it has. It needs a newer numpy than Crenel, so it is
installed in a virtual environment of its own, from PyPI, and sees nothing but a file of classes and values. It counts
rows: the streams have one row a person. Two things of version 1.3.6 are known to be so: of recursive (c, l)-diversity
it sorts the counts of values the smallest first, where the paper has the largest first, so it is asked again with the
counts the other way round (``c``; what it says by itself is ``plain``); and its entropy l is cut to a whole number
after rounding, so exactly l may be l - 1. Of t-closeness and beta-likeness it tells the least t and beta that hold,
with all that was released as the reference and all values equally far from each other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import isclose, nextafter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adult import Stream
from benchmarks.castleguard.streams import PIMA, TAXI, pima, taxi
from benchmarks.castleguard.streams import stream as stream_of
from benchmarks.promises import asking, settings, with_occupation
from benchmarks.table import Table
from crenel.anonymity.algorithm import Algorithm, ShardContext
from crenel.anonymity.algorithms.batch.windows import ClosedBy
from crenel.anonymity.algorithms.builtin import CASTLE, MONDRIAN
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.algorithms.mondrian.parameters import MondrianParameters
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.privacy_model import Asked, PrivacyModel
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.privacy_models.builtin import ALPHA, BETA, ENTROPY_L, RECURSIVE, T

PYCANON = "pycanon==1.3.6"
_BLOCK = 2000
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


def classes(tuples: Stream, algorithm: Algorithm, parameters: Any, privacy: Privacy) -> list[list[Any]]:
    """The sensitive values of each release of a stream."""
    terms = ShardContext(tuples.policy, privacy, parameters, tuples.members.schema)
    shard, found = algorithm.new(terms, 0, bytes(32)), []
    steps = [shard.push(block) for block in tuples.blocks(_BLOCK)] + [shard.finish()]
    for out in (step.releases for step in steps):
        found += [out.members[0][a:b] for a, b in zip(out.offsets, out.offsets[1:], strict=False)]
    return found


def lacks(promise: PrivacyModel, parameters: tuple[float, ...], released: list[list[Any]]) -> bool:
    """Whether any release lacks something of a promise, by the function that is compiled into the algorithms."""
    for values in released:
        counts = np.array(sorted(Counter(values).values(), reverse=True), np.int64)
        if promise.lacking(len(values), counts, np.array(parameters)) > 0.0:
            return True
    return False


def ours(released: list[list[Any]], theirs: dict[str, float]) -> dict[str, float | str]:
    """The strongest promises that the core finds kept: of alpha whether it is the judge's, to the last digit."""
    alpha, least = theirs["alpha"], min(len(set(values)) for values in released)
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
        **closest(released, theirs),
        **({"c": c} if least > 1 else {}),
    }


def closest(released: list[list[Any]], theirs: dict[str, float]) -> dict[str, float]:
    """The least t and beta that hold, with all that was released as the reference; the judge's where they are alike."""
    every = Counter(value for values in released for value in values)
    place, whole = {value: i for i, value in enumerate(every)}, sum(every.values())
    reference = Reference(tuple(map(str, every)), tuple(count / whole for count in every.values()))
    found = {"t": 0.0, "beta": 0.0}
    for values in released:
        counts = Counter(values)
        held = sorted(counts, key=lambda value: place[value])
        rows = np.array([place[value] for value in held], np.int64)
        of = np.array([counts[value] for value in held], np.int64)
        for promise in (T, BETA):
            table = np.array(promise.table(reference))
            found[promise.name] = max(found[promise.name], promise.lacking(len(values), of, np.zeros(1), rows, table))
    return {
        name: theirs[name] if isclose(number, theirs[name], abs_tol=1e-6) else number for name, number in found.items()
    }


def _told(own: float | str | None, judge: float | None) -> str:
    if own == judge:
        return "-" if own is None else str(own)
    return f"{own} ({judge})"


def judged(python: Path, released: list[list[Any]]) -> dict[str, float]:
    """What pycanon says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classes.csv"
        lines = [f"{i},v{value}" for i, values in enumerate(released) for value in values]
        path.write_text("\n".join(["class,value", *lines]) + "\n", encoding="utf-8")
        done = subprocess.run([python, "-c", _ASKS, path], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def installed(folder: Path) -> Path:
    """The Python of a new virtual environment that has pycanon; raises ``CalledProcessError`` where PyPI is away."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", PYCANON], check=True)
    return python


def tables() -> Iterator[Table]:
    """One row for each stream, algorithm and promise."""
    trips, women = stream_of(taxi(), TAXI, "FareAmount", "pid"), stream_of(pima(), PIMA, "outcome")
    trips = replace(trips, policy=replace(trips.policy, subject=None), subject=None)
    columns = ("k", "l", "entropy_l", "alpha", "c", "t", "beta")
    table = Table(
        f"The core and {PYCANON}: the same number, or the core's (pycanon's)",
        ["stream", "algorithm", "promise", *columns, "c, pycanon's own"],
    )
    asked: tuple[tuple[str, Asked], ...] = (
        ("k", ()),
        ("alpha: 0.6", ((ALPHA, 0.6),)),
        ("entropy_l: 1.9", ((ENTROPY_L, 1.9),)),
        ("recursive: {c: 2, l: 2}", ((RECURSIVE, (2.0, 2.0)),)),
        ("t: 0.4", ((T, 0.4),)),
        ("beta: 3", ((BETA, 3.0),)),
    )
    with tempfile.TemporaryDirectory() as folder:
        python = installed(Path(folder))
        for name, tuples, k in (("Adult", with_occupation(), 10), ("taxi", trips, 10), ("Pima", women, 5)):
            alike = [*list(settings())[2:], ("Mondrian", MONDRIAN, MondrianParameters(ClosedBy(500)))]
            for called, algorithm, parameters in [("CASTLE", CASTLE, CastleParameters(200, reuse_limit=0)), *alike]:
                for promise, further in asked:
                    released = classes(tuples, algorithm, parameters, replace(asking(tuples, 1, further), k=k))
                    theirs = judged(python, released)
                    found = ours(released, theirs)
                    cells = [_told(found.get(column), theirs.get(column)) for column in columns]
                    table.add(name, called, promise, *cells, f"{theirs.get('plain', '-')}")
    yield table


if __name__ == "__main__":
    for found in tables():
        sys.stdout.write(f"{found}\n")
