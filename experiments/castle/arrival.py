"""Re-identification where output is published in order of arrival, which Theorem 3 proves possible (Section 4.4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from experiments.castle.queries import Case, Generalized, generalize
from experiments.harness import Table, in_processes, mean_interval, seeds

_SEEDS = 5
_TEN = (
    *("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
    *("education", "marital-status", "occupation", "native-country"),
)
_CASE = Case("CASTLE without reuse", _TEN, 10, 1_000, 0.1)
_WITHIN = (0, 10, 50, 200)
_PERSONS = 2_000


def by_arrival(found: Generalized, persons: int, within: int, random: np.random.Generator) -> float:
    """Return the share of persons that an attacker re-identifies by the place of their rows in order of arrival.

    The attacker knows all quasi-identifiers, how many tuples are suppressed, and the arrival. It picks one of the rows
    at the possible places whose generalization contains the person.

    Parameters
    ----------
    persons : drawn from the published ones
    within : error of the known arrival, in tuples
    """
    published = np.flatnonzero(found.of >= 0)
    suppressed = len(found.of) - len(published)
    success = 0.0
    drawn = random.choice(published, persons)
    for person in drawn:
        rows = np.arange(max(person - suppressed - within, 0), min(person + within + 1, len(published)))
        success += 1 / np.count_nonzero(_contains(found, found.of[published[rows]], person))
    return success / persons


def by_release(found: Generalized) -> float:
    """Return the share of persons that an attacker re-identifies with knowledge of the release of each."""
    of = found.of[found.of >= 0]
    return len(np.unique(of)) / len(of)


def _contains(found: Generalized, of: NDArray[np.int64], person: int) -> NDArray[np.bool_]:
    """Return whether each generalization contains the values of a person."""
    tuples = found.tuples
    inside = np.all((found.lower[of] <= tuples.numeric[person]) & (tuples.numeric[person] <= found.upper[of]), axis=1)
    for i, attribute in enumerate(tuples.policy.categorical):
        tree, leaf = attribute.hierarchy, tuples.categorical[person, i]
        node = found.node[of, i]
        inside &= (tree.first[node] <= leaf) & (leaf <= tree.last[node])
    return np.asarray(inside)


def _measured(seed: int) -> list[float]:
    found, random = generalize(_CASE, seed), np.random.default_rng(seed)
    return [*(by_arrival(found, _PERSONS, within, random) for within in _WITHIN), by_release(found)]


def results() -> Iterator[Table]:
    """Tabulate re-identification by the attacker's knowledge."""
    table = Table(
        f"Theorem 3: persons re-identified, % (Adult, ten attributes, k = {_CASE.k}, delay {_CASE.delay:,}, CASTLE "
        "without reuse; mean and 95 % confidence interval over five random orders)",
        ["the attacker knows", "published in order of arrival", "published as releases"],
    )
    runs = [*in_processes(_measured, [*seeds(_SEEDS)])]
    *by_error, of_release = ([100 * value for value in values] for values in zip(*runs, strict=True))
    for within, values in zip(_WITHIN, by_error, strict=True):
        table.add(f"the arrival to within {within}" if within else "the arrival", mean_interval(values, ".1f"), "-")
    table.add("the release", "-", mean_interval(of_release, ".1f"))
    yield table
