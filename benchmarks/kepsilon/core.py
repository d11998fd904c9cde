"""Runs of the core: classes once for each k, and noise upon them as often as wanted.

Which people leave together depends on neither epsilon nor the seed. So an algorithm is asked once, and its choice is
released again and again, by the same code and with the same result as if it were made anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.kepsilon.populations import Population
from crenel.anonymity.algorithm import Counters, ShardContext
from crenel.anonymity.algorithms.batch.shard import Choice
from crenel.anonymity.algorithms.batch.stored import Snapshot, begun
from crenel.anonymity.algorithms.batch.windows import ShardOfWindows
from crenel.anonymity.algorithms.mondrian.parameters import MondrianParameters
from crenel.anonymity.algorithms.mondrian.shard import Mondrian
from crenel.anonymity.algorithms.ola.parameters import OlaParameters
from crenel.anonymity.algorithms.ola.shard import Ola
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import LINKABLE
from crenel.anonymity.model.privacy import Confidence, NoiseWithin, Privacy
from crenel.state.block import NO_TIME

Algorithm: TypeAlias = Literal["OLA", "Mondrian"]
Metric: TypeAlias = Literal["entropy", "precision", "discernibility"]
Floats: TypeAlias = NDArray[np.float64]

ALGORITHMS: tuple[Algorithm, ...] = ("OLA", "Mondrian")
SHARDS: dict[Algorithm, type[ShardOfWindows]] = {"OLA": Ola, "Mondrian": Mondrian}

KS = (2, 5, 10, 20, 50, 100)
EPSILONS = (0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Run:
    """What one run published.

    Attributes
    ----------
    rows : (released,) which people
    published : (released,) their noised values
    releases : as the shard told them
    linked : share of the released whose nearest original in their class is their own (Section V-B)
    withheld : share of all people that were suppressed for confidence (Section V-C)
    """

    rows: NDArray[np.int64]
    published: Floats
    releases: Releases
    linked: float
    withheld: float

    def errors(self, people: Population) -> Floats:
        """(released,) relative error of each published value (Section V-A)."""
        original = people.values[self.rows]
        found: Floats = np.abs(self.published - original) / np.abs(original)
        return found


class Chosen(ShardOfWindows):
    """A shard of which it is known what leaves together."""

    def __init__(self, terms: ShardContext, snapshot: Snapshot, choice: Choice) -> None:
        super().__init__(terms, snapshot)
        self._choice = choice

    def divided(self) -> Choice:
        return self._choice


def terms(people: Population, algorithm: Algorithm, privacy: Privacy, metric: Metric = "entropy") -> ShardContext:
    """What a shard is held to; without noise in ``privacy`` the attribute that would have it is generalized too."""
    policy = people.policy(by_levels=algorithm == "OLA", noised=privacy.noise_within is not None)
    made = {"OLA": OlaParameters(max_suppression=0.05, metric=metric), "Mondrian": MondrianParameters(cut="widest")}
    return ShardContext(policy, privacy, made[algorithm], people.members(policy))


def key(seed: int) -> bytes:
    """Of the random stream of a run."""
    return bytes([seed]) * 32


def shard(of: ShardContext, algorithm: Algorithm, seed: int = 0) -> ShardOfWindows:
    """A shard before its first tuple."""
    return SHARDS[algorithm](of, begun(of, 0, key(seed)))


def choice(people: Population, algorithm: Algorithm, k: int) -> Choice:
    """Who leaves with whom, and who is suppressed by the algorithm itself."""
    of = terms(people, algorithm, Privacy(k, noise_within=NoiseWithin(1.0)))
    asked = shard(of, algorithm)
    asked.push(people.block(of.policy))
    return asked.choose(NO_TIME, ended=True)


def together(people: Population) -> Choice:
    """All people as one class: differential privacy of the whole, as in Figure 2."""
    return Choice(groups=[np.arange(len(people))])


def noise(epsilon: float, k: int, *, confident: bool, least: float = 0.02) -> Privacy:
    """What is promised; ``least`` as of ``NoiseWithin``."""
    confidence = Confidence(CONFIDENCE, k) if confident else None
    return Privacy(k, noise_within=NoiseWithin(epsilon, least=least, confidence=confidence))


def run(people: Population, algorithm: Algorithm, privacy: Privacy, chosen: Choice, seed: int) -> Run:
    """Release what was chosen, with the noise of a seed."""
    of = terms(people, algorithm, privacy)
    releasing = Chosen(of, begun(of, 0, key(seed)), chosen)
    releasing.push(people.block(of.policy))
    return published(people, releasing.finish().releases, releasing.counters)


def published(people: Population, releases: Releases, counters: Counters) -> Run:
    """What releases with one noised column tell."""
    shown, rows = releases.members
    return Run(
        rows=np.array(rows, np.int64),
        published=np.array(shown, np.float64),
        releases=releases,
        linked=counters.linked / max(counters.released, 1),
        withheld=counters.suppressed.get(LINKABLE, 0) / len(people),
    )


def diameters(people: Population, chosen: Choice) -> Floats:
    """(classes, 3) of each class its size, its diameter, and the mean of 1 / value: what equation (8) is made of."""
    values = people.values
    classes = [np.abs(values[group]) for group in chosen.groups]
    return np.array([(len(some), np.ptp(some), np.mean(1 / some)) for some in classes])


def expected_error(people: Population, chosen: Choice, epsilon: float) -> float:
    """Equation (8): the relative error that noise without bounds has on average."""
    size, diameter, inverse = diameters(people, chosen).T
    return float(np.average(diameter * inverse, weights=size) / epsilon)
