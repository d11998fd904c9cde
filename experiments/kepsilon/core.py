"""Runs of the core: equivalence classes once for each k, then noise for each epsilon and seed.

Classes depend on neither epsilon nor the seed. So an algorithm chooses them once, and the shard's own code releases
this choice repeatedly, with the same result as a complete run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters, ShardContext
from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.batch.stored import BatchSnapshot, initial_snapshot
from crenel.anonymity.algorithms.batch.windows import ShardOfWindows
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian, MondrianShard
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.ola.shard import OlaShard
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import LINKABLE
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy
from crenel.state.block import NO_TIME
from experiments.harness import Floats, panels
from experiments.kepsilon.populations import POPULATIONS, Population

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Algorithm: TypeAlias = Literal["OLA", "Mondrian"]
Metric: TypeAlias = Literal["entropy", "precision", "discernibility"]

ALGORITHMS: tuple[Algorithm, ...] = ("OLA", "Mondrian")
SHARDS: dict[Algorithm, type[ShardOfWindows]] = {"OLA": OlaShard, "Mondrian": MondrianShard}

KS = (2, 5, 10, 20, 50, 100)
EPSILONS = (0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Run:
    """Published values of one run.

    Attributes
    ----------
    rows : (released,) row of each person
    published : (released,) their noised values
    releases : of the shard
    linked : share of the released whose nearest original in their class is their own (Section V-B)
    withheld : share of all people that were suppressed for confidence (Section V-C)
    """

    rows: NDArray[np.int64]
    published: Floats
    releases: Releases
    linked: float
    withheld: float

    def errors(self, people: Population) -> Floats:
        """Return the relative error of each published value, (released,) (Section V-A)."""
        original = people.values[self.rows]
        found: Floats = np.abs(self.published - original) / np.abs(original)
        return found


class Chosen(ShardOfWindows):
    """Shard that releases given classes."""

    def __init__(self, terms: ShardContext, snapshot: BatchSnapshot, choice: Choice) -> None:
        super().__init__(terms, snapshot)
        self._choice = choice

    def divided(self) -> Choice:
        return self._choice


def terms(people: Population, algorithm: Algorithm, privacy: Privacy, metric: Metric = "entropy") -> ShardContext:
    """Return the context of a shard; without noise in ``privacy`` the noised attribute is generalized instead."""
    policy = people.policy(by_levels=algorithm == "OLA", noised=privacy.noise_within_release is not None)
    made = {"OLA": Ola(max_suppression=0.05, metric=metric), "Mondrian": Mondrian(cut="widest")}
    return ShardContext(policy, privacy, made[algorithm], people.members(policy))


def key(seed: int) -> bytes:
    """Return the key of the random stream of a run."""
    return bytes([seed]) * 32


def shard(of: ShardContext, algorithm: Algorithm, seed: int = 0) -> ShardOfWindows:
    """Return a shard before its first tuple."""
    return SHARDS[algorithm](of, initial_snapshot(of, 0, key(seed)))


def choice(people: Population, algorithm: Algorithm, k: int) -> Choice:
    """Return the classes, and the persons that the algorithm itself suppresses."""
    of = terms(people, algorithm, Privacy(k, noise_within_release=NoiseWithinRelease(1.0)))
    context = shard(of, algorithm)
    context.push(people.block(of.policy))
    return context.choose(NO_TIME, ended=True)


def one_class(people: Population) -> Choice:
    """Return all persons as one class: differential privacy of the whole population, as in Figure 2."""
    return Choice(groups=[np.arange(len(people))])


def noise(epsilon: float, k: int, *, confident: bool, least: float = 0.02) -> Privacy:
    """Return the privacy settings; ``least`` as of ``NoiseWithinRelease``."""
    confidence = Confidence(CONFIDENCE, k) if confident else None
    return Privacy(k, noise_within_release=NoiseWithinRelease(epsilon, least=least, confidence=confidence))


def run(people: Population, algorithm: Algorithm, privacy: Privacy, chosen: Choice, seed: int) -> Run:
    """Release chosen classes with the noise of a seed."""
    of = terms(people, algorithm, privacy)
    releasing = Chosen(of, initial_snapshot(of, 0, key(seed)), chosen)
    releasing.push(people.block(of.policy))
    return published(people, releasing.finish().releases, releasing.counters)


def published(people: Population, releases: Releases, counters: Counters) -> Run:
    """Return the published values of releases with one noised column."""
    shown, rows = releases.members
    return Run(
        rows=np.array(rows, np.int64),
        published=np.array(shown, np.float64),
        releases=releases,
        linked=counters.linked / max(counters.released, 1),
        withheld=counters.suppressed.get(LINKABLE, 0) / len(people),
    )


def diameters(people: Population, chosen: Choice) -> Floats:
    """Return size, diameter and mean of 1 / value of each class, (classes, 3): the terms of equation (8)."""
    values = people.values
    classes = [np.abs(values[group]) for group in chosen.groups]
    return np.array([(len(some), np.ptp(some), np.mean(1 / some)) for some in classes])


def expected_error(people: Population, chosen: Choice, epsilon: float) -> float:
    """Return the mean relative error of unbounded noise by equation (8)."""
    size, diameter, inverse = diameters(people, chosen).T
    return float(np.average(diameter * inverse, weights=size) / epsilon)


def by_population(*, sharey: bool = True) -> tuple[Figure, Any]:
    """Return a figure with a panel for each algorithm (rows) and population (columns)."""
    return panels(2, 3, (9, 6), sharey=sharey)


def panels_of(grid: Any) -> list[tuple[tuple[str, Algorithm], Any]]:
    """Return each population and algorithm with its panel of ``by_population``."""
    return [
        ((population, algorithm), grid[row, column])
        for row, algorithm in enumerate(ALGORITHMS)
        for column, population in enumerate(POPULATIONS)
    ]


def title(panel: Any, population: str, algorithm: Algorithm, x: str, y: str) -> None:
    """Title a panel, and name its axes."""
    name = {"adult": "Adult", "a": "invented list A", "b": "invented list B"}[population]
    panel.set(title=f"{name}, {algorithm}", xlabel=x)
    if population == "adult":
        panel.set_ylabel(y)
