"""Attackers with timing knowledge: re-identification of singleton releases by jitter of the delay.

Reuse publishes a due tuple as a singleton release. The attacker knows the quasi-identifiers of all persons, and the
arrival of each row to within ``KNOWN`` rows. For a singleton release, the attacker lists the rows in its box whose
arrival fits. A single such row is re-identified, with its sensitive value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.adult import FOUR, stream
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.algorithm import CastleParameters
from crenel.anonymity.algorithms.nearest.algorithm import NearestParameters
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.builtin import CASTLE, NEAREST
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.privacy import Privacy
from experiments.harness import Stream, Table, seeds

KNOWN = 50
"""Uncertainty of the attacker about the arrival of a row, in rows."""

_JITTER = (0.0, 0.1, 0.25, 0.5, 1.0)
_SEEDS = 1
_REUSED = KINDS.index("reused")


@dataclass(frozen=True)
class Attacked:
    """Results of one run.

    Attributes
    ----------
    loss, suppressed : mean loss of released tuples; share of suppressed tuples
    reused : share of all tuples in singleton releases before the end of the stream
    named : share of these with a single possible row
    guessed : expected share of correct guesses among the possible rows
    """

    loss: float
    suppressed: float
    reused: float
    named: float
    guessed: float


def results() -> Iterator[Table]:
    """Tabulate re-identification by setting."""
    adult = stream()
    table = Table(
        f"Singleton releases of Adult, and their re-identification with arrivals known to within {KNOWN} rows "
        f"(seeds: {len(seeds(_SEEDS))})",
        [
            "setting",
            "algorithm",
            "reuse_limit",
            "jitter",
            "loss",
            "suppressed",
            "reused",
            "singled out",
            "guessed",
            "singled out, of all",
        ],
    )
    settings = (
        ("10 QIs, k 10, delay 1,000", adult, Privacy(10), 1000),
        ("10 QIs, k 100, delay 10,000", adult, Privacy(100), 10_000),
        ("4 QIs, k 50, delay 1,000", adult.of_attributes(FOUR), Privacy(50), 1000),
    )
    for name, tuples, privacy, delay in settings:
        for algorithm, parameters in (("castle", CastleParameters), ("nearest", NearestParameters)):
            for limit, jitter in (*((1000, jitter) for jitter in _JITTER), (0, 0.0)):
                chosen = parameters(delay_tuples=delay, reuse_limit=limit, delay_jitter=jitter)
                runs = [attacked(tuples, privacy, chosen, seed) for seed in seeds(_SEEDS)]
                table.add(
                    name,
                    algorithm,
                    limit,
                    jitter,
                    f"{fmean(run.loss for run in runs):.3f}",
                    f"{fmean(run.suppressed for run in runs):.2%}",
                    f"{fmean(run.reused for run in runs):.1%}",
                    f"{fmean(run.named for run in runs):.0%}",
                    f"{fmean(run.guessed for run in runs):.0%}",
                    f"{fmean(run.named * run.reused for run in runs):.2%}",
                )
    yield table


def attacked(tuples: Stream, privacy: Privacy, parameters: Any, seed: int) -> Attacked:
    """Run a stream tuple by tuple, and attack it."""
    rows = np.arange(len(tuples))
    members = pa.record_batch([*tuples.members.columns, pa.array(rows)], names=[*tuples.members.schema.names, "row"])
    policy = replace(tuples.policy, passthrough=("row",))
    algorithm = NEAREST if isinstance(parameters, NearestParameters) else CASTLE
    context = ShardContext(policy, privacy, parameters, members.schema, remembers=False)
    shard = algorithm.new(context, 0, bytes([seed]) * 32)
    found: list[int] = []
    for position, block in enumerate(replace(tuples, policy=policy, members=members).blocks(1)):
        releases = shard.push(block).releases
        if _REUSED in releases.kind:
            found.extend(_possible_rows(tuples, releases, position, parameters))
    shard.finish()
    counters = shard.counters
    possible = np.array(found)
    return Attacked(
        counters.loss_sum / counters.released,
        sum(counters.suppressed.values()) / len(tuples),
        len(possible) / len(tuples),
        float((possible == 1).mean()) if len(possible) else 0.0,
        float((1 / possible).mean()) if len(possible) else 0.0,
    )


def _possible_rows(tuples: Stream, releases: Releases, position: int, parameters: Any) -> Iterator[int]:
    """Yield the number of possible rows of each singleton release on the arrival at ``position``."""
    delay, early = parameters.delay_tuples, int(parameters.delay_jitter * parameters.delay_tuples)
    start, stop = max(position - delay - KNOWN, 0), min(position - delay + early + KNOWN, position) + 1
    for release in np.flatnonzero(releases.kind == _REUSED).tolist():
        rows = slice(start, stop)
        yield int(inside(tuples, releases, release, tuples.numeric[rows], tuples.categorical[rows]).sum())


def inside(
    tuples: Stream, releases: Releases, release: int, numeric: NDArray[np.float64], leaf: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return whether each row of values lies in the generalization of a release, (rows,)."""
    found = ((numeric >= releases.lower[release]) & (numeric <= releases.upper[release])).all(axis=1)
    for i, attribute in enumerate(tuples.policy.categorical):
        tree, node = attribute.hierarchy, releases.node[release, i]
        found &= (leaf[:, i] >= tree.first[node]) & (leaf[:, i] <= tree.last[node])
    contained: NDArray[np.bool_] = found
    return contained
