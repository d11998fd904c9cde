"""Weights of quasi-identifiers in distances, a setting of several algorithms.

A weight changes which tuples count as near, and so which tuples are released together. Reported losses and all
guarantees ignore it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.errors import FieldError
from crenel.anonymity.model.fields import Weights
from crenel.anonymity.model.policy import Policy


def require_weights(weights: Weights) -> None:
    """Raise ``ValueError`` where a weight is 0, which only some algorithms allow."""
    for name, weight in weights.items():
        if weight == 0:
            raise FieldError(f"weights.{name}", "must be a finite number above 0, not 0")


def describe_weights(weights: Weights) -> str:
    """Return weights as ``crenel check`` shows them."""
    return ", ".join(f"{name} {weight:.6g}" for name, weight in weights.items()) or "all 1"


def problems_of_weights(policy: Policy, weights: Weights, algorithm: str) -> Iterator[str]:
    """Yield each weight of a column that is no quasi-identifier, with its field and the valid names.

    A dropped column may keep its weight, which has no effect, so that a quasi-identifier can be dropped on trial.
    """
    names = {attribute.name for attribute in policy.attributes}
    for name in weights:
        if name not in names and name not in policy.drop:
            yield f"{algorithm}.weights.{name}: must be one of {', '.join(sorted(names))}"


def relative_weights(policy: Policy, weights: Weights) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (numeric,) and (categorical,) weights, divided by the mean weight of all quasi-identifiers.

    Equal weights give 1 exactly. At least one weight is above 0.
    """
    weight = np.array([weights.get(attribute.name, 1.0) for attribute in policy.coded], np.float64)
    if len(weight):
        weight /= weight.max()  # the sum of great weights would overflow
        weight /= weight.mean()
    return weight[: len(policy.numeric)], weight[len(policy.numeric) :]
