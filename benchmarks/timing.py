"""What the moment at which a tuple leaves alone tells: how many reused tuples it names, by jitter of the delay.

Who is due leaves; where a generalization is reused, alone. An observer who knows everybody's quasi-identifiers, and of
each row when it came to within ``KNOWN`` rows, sees a tuple leave alone and asks who in its box came when it can have
come. Where only one row did, the tuple is named, and its sensitive value is that person's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.adult import Stream, stream
from benchmarks.nearest import FOUR, of_attributes
from benchmarks.table import Table
from crenel.anonymity.algorithm import ShardContext
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.algorithms.castle.shard import Castle
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters
from crenel.anonymity.algorithms.nearest.shard import Nearest
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.buffer.stored_shard import begun
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.privacy import Privacy

KNOWN = 50
"""By how many rows the observer may be wrong about when a row came."""

_JITTER = (0.0, 0.1, 0.25, 0.5, 1.0)
_SEEDS = 1
_REUSED = KINDS.index("reused")


@dataclass(frozen=True)
class Attacked:
    """What one run gave.

    Attributes
    ----------
    loss, suppressed : mean loss of released tuples, share of all
    reused : share of all tuples that left by reuse while the stream went on
    named : share of these that only one row can be
    guessed : share of these that a guess among the rows that they can be finds
    """

    loss: float
    suppressed: float
    reused: float
    named: float
    guessed: float


def tables() -> Iterator[Table]:
    """One table by setting."""
    adult = stream()
    table = Table(
        f"Tuples of Adult that left alone, and whom an observer finds who knows when each row came to within {KNOWN} "
        f"rows (seeds: {_SEEDS})",
        [
            "setting",
            "algorithm",
            "reuse_limit",
            "jitter",
            "loss",
            "suppressed",
            "reused",
            "named",
            "guessed",
            "named of all",
        ],
    )
    settings = (
        ("10 QIs, k 10, delay 1,000", adult, Privacy(10), 1000),
        ("10 QIs, k 100, delay 10,000", adult, Privacy(100), 10_000),
        ("4 QIs, k 50, delay 1,000", of_attributes(adult, FOUR), Privacy(50), 1000),
    )
    for name, tuples, privacy, delay in settings:
        for algorithm, parameters in (("castle", CastleParameters), ("nearest", NearestParameters)):
            for limit, jitter in (*((1000, jitter) for jitter in _JITTER), (0, 0.0)):
                chosen = parameters(delay_tuples=delay, reuse_limit=limit, delay_jitter=jitter)
                runs = [attacked(tuples, privacy, chosen, seed) for seed in range(_SEEDS)]
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
    """One run, tuple by tuple, and the attack on it."""
    rows = np.arange(len(tuples))
    members = pa.record_batch([*tuples.members.columns, pa.array(rows)], names=[*tuples.members.schema.names, "row"])
    policy = replace(tuples.policy, passthrough=("row",))
    made = Nearest if isinstance(parameters, NearestParameters) else Castle
    terms = ShardContext(policy, privacy, parameters, members.schema)
    shard = made(terms, begun(terms, 0, bytes([seed]) * 32), remembers=False)
    found: list[int] = []
    for came, block in enumerate(replace(tuples, policy=policy, members=members).blocks(1)):
        releases = shard.push(block).releases
        if _REUSED in releases.kind:
            found.extend(_who_can_be(tuples, releases, came, parameters))
    shard.finish()
    counters = shard.counters
    can_be = np.array(found)
    return Attacked(
        counters.loss_sum / counters.released,
        sum(counters.suppressed.values()) / len(tuples),
        len(can_be) / len(tuples),
        float((can_be == 1).mean()) if len(can_be) else 0.0,
        float((1 / can_be).mean()) if len(can_be) else 0.0,
    )


def _who_can_be(tuples: Stream, releases: Releases, came: int, parameters: Any) -> Iterator[int]:
    """Of each reused tuple, how many rows can be it that left when the one at position ``came`` came."""
    delay, early = parameters.delay_tuples, int(parameters.delay_jitter * parameters.delay_tuples)
    start, stop = max(came - delay - KNOWN, 0), min(came - delay + early + KNOWN, came) + 1
    for release in np.flatnonzero(releases.kind == _REUSED).tolist():
        yield int(_inside(tuples, releases, release, slice(start, stop)).sum())


def _inside(tuples: Stream, releases: Releases, release: int, rows: slice) -> NDArray[np.bool_]:
    values, leaves = tuples.numeric[rows], tuples.categorical[rows]
    inside = ((values >= releases.lower[release]) & (values <= releases.upper[release])).all(axis=1)
    for i, attribute in enumerate(tuples.policy.categorical):
        tree, node = attribute.hierarchy, releases.node[release, i]
        inside &= (leaves[:, i] >= tree.first[node]) & (leaves[:, i] <= tree.last[node])
    found: NDArray[np.bool_] = inside
    return found
