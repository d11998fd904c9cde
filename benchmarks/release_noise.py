"""Cost of noise within releases in the core: Adult with the hours per week beside the other quasi-identifiers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from benchmarks.adult import REUSE, Stream, stream
from benchmarks.measure import Table
from crenel.anonymity.algorithm import Algorithm, Counters, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Noised
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.outcomes import LINKABLE
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy

_BLOCK, _K, _REPEATS = 2000, 10, 15
_HOURS = "hours-per-week"
_SETTINGS: tuple[tuple[str, Algorithm], ...] = (
    ("CASTLE, delta 1,000", Castle(Delay(1000), reuse_limit=REUSE)),
    ("windows of 50", Suhdsa(50)),
    ("Mondrian, windows of 1,000", Mondrian(Window(1000))),
)
_NOISE = NoiseWithinRelease(2.0)
_CONFIDENT = replace(_NOISE, confidence=Confidence(0.9, 3))


@dataclass(frozen=True)
class Variant:
    """One treatment of the hours: a policy, its privacy settings, and the stream in its columns."""

    name: str
    policy: Policy
    privacy: Privacy
    tuples: Stream


def variants() -> list[Variant]:
    """Return the hours left out, passed through, and noised without and with confidence."""
    adult = stream()
    hours = adult.numeric[:, [attribute.name for attribute in adult.policy.numeric].index(_HOURS)]
    left_out = adult.of_attributes([a.name for a in adult.policy.attributes if a.name != _HOURS])
    carried = replace(
        left_out, members=left_out.members.append_column(_HOURS, pa.array(hours.astype(np.int64), pa.int64()))
    )
    passed = replace(left_out.policy, passthrough=(_HOURS,))
    noised = replace(left_out.policy, noised={_HOURS: Noised((float(hours.min()), float(hours.max())), 1.0)})
    return [
        Variant("left out", left_out.policy, Privacy(_K), left_out),
        Variant("passed through", passed, Privacy(_K), carried),
        Variant("noised", noised, Privacy(_K, noise_within_release=_NOISE), carried),
        Variant("noised, confidence", noised, Privacy(_K, noise_within_release=_CONFIDENT), carried),
    ]


def run(variant: Variant, algorithm: Algorithm) -> tuple[float, Counters]:
    """Return the seconds of one shard, from its first block to the end, changes of state included, and its counters."""
    terms = ShardContext(variant.policy, variant.privacy, algorithm, variant.tuples.members.schema)
    shard, blocks = algorithm.new(terms, 0, bytes(32)), variant.tuples.blocks(_BLOCK)
    start = time.perf_counter()
    for block in blocks:
        shard.push(block)
    shard.finish()
    return time.perf_counter() - start, shard.counters


def tables(repeats: int = _REPEATS) -> Iterator[Table]:
    """Tabulate the time of each variant relative to that in which the hours are passed through."""
    table = Table(
        f"Hours per week beside nine quasi-identifiers, in the core (k = {_K}, l = 1; variants in turn, median of "
        f"{repeats})",
        ["algorithm", "hours per week", "microseconds a tuple", "against passed through", "linkable", "linked"],
    )
    of = variants()
    for name, algorithm in _SETTINGS:
        seconds: dict[str, list[float]] = {variant.name: [] for variant in of}
        counters = {}
        for turn in range(repeats + 1):
            for variant in of:
                spent, counters[variant.name] = run(variant, algorithm)
                if turn:  # the first compiles
                    seconds[variant.name].append(spent)
        for variant in of:
            counted, each = counters[variant.name], np.array(seconds[variant.name])
            noise, linkable = variant.privacy.noise_within_release, counted.suppressed.get(LINKABLE)
            table.add(
                name,
                variant.name,
                f"{np.median(each) / counted.tuples_in * 1e6:.2f}",
                f"{np.median(each / seconds['passed through']):.2f}",
                "-" if linkable is None else f"{linkable / counted.tuples_in:.1%}",
                "-" if noise is None else f"{counted.linked / counted.released:.1%}",
            )
    yield table
