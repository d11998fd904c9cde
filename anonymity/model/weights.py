"""Weights of quasi-identifiers in distances, a setting of several algorithms.

A weight changes which tuples count as near, and so which tuples are released together. Reported losses and all
guarantees ignore it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy

Weights: TypeAlias = tuple[tuple[str, float], ...]
"""Pairs of a quasi-identifier and its weight; the weight of every other quasi-identifier is 1."""


def require_weights(weights: Weights, algorithm: str, *, zero: bool = False) -> None:
    """Raise ``PolicyError`` where a weight is not finite or not above 0; ``zero``: whether 0 is valid as well."""
    for name, weight in weights:
        if not isfinite(weight) or weight < 0 or (weight == 0 and not zero):
            valid = "0 or more" if zero else "a finite number above 0"
            raise PolicyError(f"{algorithm}.weights.{name}: must be {valid}, not {weight}")


def problems_of_weights(policy: Policy, weights: Weights, algorithm: str) -> Iterator[str]:
    """Yield each weight of a column that is no quasi-identifier, with its field and the valid names.

    A dropped column may keep its weight, which has no effect, so that a quasi-identifier can be dropped on trial.
    """
    names = {attribute.name for attribute in policy.quasi_identifiers}
    for name, _ in weights:
        if name not in names and name not in policy.drop:
            yield f"{algorithm}.weights.{name}: must be one of {', '.join(sorted(names))}"


def relative_weights(policy: Policy, weights: Weights) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (numeric,) and (categorical,) weights, divided by the mean weight of all quasi-identifiers.

    Equal weights give 1 exactly. At least one weight is above 0.
    """
    given = dict(weights)
    names = [*(attribute.name for attribute in policy.numeric), *(attribute.name for attribute in policy.categorical)]
    weight = np.array([given.get(name, 1.0) for name in names], np.float64)
    if len(weight):
        weight /= weight.max()  # the sum of great weights would overflow
        weight /= weight.mean()
    return weight[: len(policy.numeric)], weight[len(policy.numeric) :]
