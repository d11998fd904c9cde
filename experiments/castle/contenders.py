"""Algorithms beside which CASTLE is compared, under the same maximum delay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.privacy import Privacy
from experiments.harness import REUSE, Setting, Stream, numeric_stream

CONTENDERS = ("CASTLE", "CASTLE without reuse", "nearest", "SUHDSA windows", "Mondrian, whole table")

SEEDS = 5


def contender(name: str, tuples: Stream, k: int, delay: int, *, clusters: int = 50, loss_window: int = 100) -> Setting:
    """Return the setting of a contender; l is 1.

    Windows hold half the delay, since SUHDSA carries a tuple into a second window at most. Mondrian has no delay.

    Parameters
    ----------
    delay : maximum delay in tuples (delta)
    clusters, loss_window : parameters of CASTLE (beta, mu)
    """
    privacy = Privacy(k)
    if name.startswith("CASTLE"):
        reuse = REUSE if name == "CASTLE" else 0
        found = Castle(Delay(delay), max_clusters=clusters, loss_window=loss_window, reuse_limit=reuse)
        return Setting(tuples, found, privacy)
    if name == "nearest":
        return Setting(tuples, Nearest(Delay(delay)), privacy)
    if name == "SUHDSA windows":
        return Setting(tuples, Suhdsa(tuples=max(delay // 2, 1), delay=Delay(delay)), privacy)
    return Setting(tuples, Mondrian(Window(None), "loss"), privacy)


def shuffled(tuples: Stream, seed: int) -> Stream:
    """Return the persons in the order of a seed, so that algorithms without randomness vary too.

    The rows of a person stay together, in their order.
    """
    person = np.arange(len(tuples)) if tuples.subject is None else np.unique(tuples.subject, return_inverse=True)[1]
    rank = np.random.default_rng(seed).permutation(int(person.max()) + 1)
    return tuples.rows(np.argsort(rank[person], kind="stable"))


def of_persons(tuples: Stream, persons: int, rows: int) -> Stream:
    """Return the first tuples as persons with ``rows`` equal tuples each, next to each other."""
    found = tuples.rows(np.repeat(np.arange(persons), rows))
    subject = np.random.default_rng(0).integers(0, 2**64, persons, np.uint64)
    return replace(found, policy=replace(found.policy, subject="person"), subject=np.repeat(subject, rows))


def persons_within(tuples: Stream, seed: int, *, each: int, within: int | None) -> Stream:
    """Return the tuples in the order of a seed, as those of persons with ``each`` tuples of different values.

    Parameters
    ----------
    within : the tuples of a person are among as many successive ones; None: anywhere
    """
    random, size = np.random.default_rng(seed), len(tuples)
    found = tuples.rows(random.permutation(size))
    place = np.lexsort((random.random(size), np.arange(size) // (within or size)))
    person = np.empty(size, np.int64)
    person[place] = np.arange(size) // each
    subject = random.integers(0, 2**64, -(-size // each), np.uint64)[person]
    return replace(found, policy=replace(found.policy, subject="person"), subject=subject)


def zipf(tuples: int, exponent: float, attributes: int = 4, values: int = 1000, seed: int = 0) -> Stream:
    """Return a synthetic stream of independent numbers 1 to ``values`` by a power law (Section 5.1)."""
    share = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    drawn = np.random.default_rng(seed).choice(values, (tuples, attributes), p=share / share.sum()) + 1
    chosen = [Numeric((1, values), 1).named(f"a{number}") for number in range(attributes)]
    rows = pd.DataFrame(drawn, columns=[a.name for a in chosen]).assign(sensitive=np.arange(tuples))
    return numeric_stream(rows, chosen, "sensitive")
