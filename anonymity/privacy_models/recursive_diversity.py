"""Recursive (c, l)-diversity: a bound on the most common value (Machanavajjhala and others, TKDD 2007, 4.2).

With counts of persons r_1, r_2, ... in descending order, r_1 is below c * (r_l + r_{l+1} + ...). An attacker who rules
out l - 2 values for a person therefore still cannot be too certain of the remaining ones (Definition 4.2). The union of
two satisfying sets satisfies; adding a single tuple to a set may violate the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model

_EXACT = 1e-12
"""Relative tolerance: a product such as c * 3 may be rounded up, and equality violates the model."""


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    """Return the excess persons of the most common value, as a share of all persons."""
    rare = 0
    for i in range(int(parameters[1]) - 1, len(counts)):
        rare += counts[i]
    most = parameters[0] * rare
    if len(counts) == 0 or counts[0] < most - _EXACT * most:
        return 0.0
    return max(1.0 + counts[0] - most, 1.0) / persons


def least_removed(persons: NDArray[np.int64], shortfall: NDArray[np.float64], given: Any) -> NDArray[np.float64]:
    """Return a bound: the most common value must lose its excess, and the sum of the rare ones never rises."""
    bound: NDArray[np.float64] = persons * shortfall - 1
    return bound


RECURSIVE = add_privacy_model(
    PrivacyModel(
        name="recursive",
        parameter="a mapping such as {c: 3, l: 2}, with c above 0 and l a whole number from 2 to k",
        allowed=lambda given, k: given[0] > 0 and given[1] == int(given[1]) and 2 <= given[1] <= k,
        lacking=lacking,
        reason="recursive",
        least_values=lambda given: int(given[1]),
        fields={
            "c": "a number above 0: the commonest value has fewer than c times as many persons as the l-th and rarer",
            "l": "a whole number from 2 to k",
        },
        least_removed=least_removed,
        example={"c": 3, "l": 2},
        statement="the commonest value has fewer than c times as many persons as the l-th and all rarer ones",
        not_covered="a large c protects little",
        terms=("l-diversity (recursive)", "l-diversity (recursive)"),
    )
)
