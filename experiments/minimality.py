"""Minimality attacks on Adult by algorithm and privacy model: what the formation of classes discloses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np

from benchmarks.adult import SUHDSA_COLUMNS, stream
from benchmarks.measure import BLOCK
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.attack.formation import learned_minimality
from crenel.evidence.attack.minimality import Inferred
from crenel.evidence.attack.result import Tries, wilson
from crenel.evidence.sample import ReplaySetting, Sample
from experiments.castle.contenders import shuffled
from experiments.harness import Table, in_processes, seeds

_SEEDS = 3
_K = 10
_LEARNED = 8000
"""Records of the attacker who learns from half of them, and attacks the other half."""

_DELAY = {"ten": 1000, "three": 200}
_MODELS: dict[str, tuple[int, dict[str, Any]]] = {
    "k alone": (1, {}),
    "`l: 2`": (2, {}),
    "`alpha: 0.8`": (1, {"alpha": 0.8}),
    "`entropy_l: 1.5`": (1, {"entropy_l": 1.5}),
    "`recursive: {c: 4, l: 2}`": (1, {"recursive": {"c": 4.0, "l": 2}}),
    "`t: 0.2`": (1, {"t": 0.2}),
    "`beta: 1`": (1, {"beta": 1.0}),
}

_Case: TypeAlias = tuple[str, str, str, int]
"""Number of attributes, algorithm, privacy model, and seed."""


def _algorithms(attributes: str) -> dict[str, Algorithm]:
    """Return the algorithms; OLA needs categorical attributes, as the three are."""
    delay = _DELAY[attributes]
    found: dict[str, Algorithm] = {
        "nearest": Nearest(Delay(delay)),
        "CASTLE": Castle(Delay(delay)),
        "SUHDSA": Suhdsa(delay),
        "Mondrian": Mondrian(Window(delay)),
    }
    return found if attributes == "ten" else {**found, "OLA": Ola(Window(delay))}


def results() -> Iterator[Table]:
    """Tabulate the attacks with ten quasi-identifiers, and with three."""
    for attributes, delay in _DELAY.items():
        table = Table(
            f"Minimality attacks by algorithm and privacy model (Adult, {attributes} quasi-identifiers, income "
            f"sensitive, k = {_K}, delay and windows of {delay:,}; %, in brackets the 95 % confidence interval)",
            [
                "algorithm",
                "privacy model",
                "guesses right",
                "by the commonest value",
                "rare value at 1",
                "by chance",
                "deduced",
                "of these right",
                "these by the commonest value",
                "rare values deduced",
            ],
        )
        every = seeds(_SEEDS)
        rows = [(algorithm, model) for algorithm in _algorithms(attributes) for model in _MODELS]
        found = in_processes(_attacked, [(attributes, *row, seed) for row in rows for seed in every])
        for row in rows:
            learned = _sum([next(found) for _ in every])
            table.add(
                *row,
                _percent(learned.guessed),
                f"{100 * learned.usual.share:.1f}",
                _percent(learned.rare),
                f"{100 * learned.usual_rare.share:.1f}",
                _share(learned.deduced, learned.guessed),
                _percent(learned.deduced),
                f"{100 * learned.usual_deduced.share:.1f}" if learned.deduced.count else "-",
                _percent(learned.rare_deduced),
            )
        yield table


def _attacked(case: _Case) -> Inferred:
    """Return the inference of the attacker who learns, without the seed or any value."""
    attributes, name, model, seed = case
    tuples = shuffled(stream() if attributes == "ten" else stream().of_attributes(SUHDSA_COLUMNS), seed)
    sample = Sample.of_blocks(tuples.policy, tuples.blocks(BLOCK))
    diversity, models = _MODELS[model]
    setting = ReplaySetting(_algorithms(attributes)[name], Privacy(_K, diversity, models=models), seed=seed)
    return learned_minimality(sample.first(_LEARNED), setting, 0, np.random.default_rng(seed))


def _sum(runs: list[Inferred]) -> Inferred:
    nothing = Tries(0, 0.0)
    return Inferred(*(sum((getattr(run, of.name) for run in runs), nothing) for of in fields(Inferred)))


def _share(some: Tries, everything: Tries) -> str:
    return f"{100 * some.count / everything.count:.1f}" if everything.count else "-"


def _percent(tries: Tries) -> str:
    low, high = wilson(tries)
    return f"{100 * tries.share:.1f} ({100 * low:.1f} to {100 * high:.1f})" if tries.count else "-"
