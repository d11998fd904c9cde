"""A privacy model of your own: at most a share of the persons of a release have the same sensitive value.

Run it: ``python examples/own_privacy_model.py``. Other programs name this module in ``extensions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import crenel
from crenel.anonymity.model.privacy_model import PrivacyModel, add_privacy_model
from crenel.evidence.verify.formulas import ROUNDED, formula


def lacking(persons: int, counts: Any, parameters: Any) -> float:
    """Return by how much the share of the commonest value exceeds the maximum; compiled by numba.

    Parameters
    ----------
    persons : number of distinct persons
    counts : persons with each value, largest first
    parameters : the maximum share
    """
    return max(counts[0] / persons - parameters[0], 0.0) if len(counts) else 0.0


AT_MOST = add_privacy_model(
    PrivacyModel(
        name="at_most",
        parameter="a number above 0 and at most 1",
        allowed=lambda parameter, k: 0 < parameter <= 1,
        lacking=lacking,
        reason="too_common",
    )
)


@formula("at_most")
def keeps(_: None, share: float, persons: int, counts: Mapping[str, int]) -> bool:
    """Return whether published rows satisfy it, for ``crenel.verify``: without the code that it checks."""
    return max(counts.values()) <= share * persons * (1 + ROUNDED)


def main() -> None:
    """Anonymize invented visits under the privacy model, and verify the result."""
    random = np.random.default_rng(1)
    visits = pa.table(
        {"age": random.integers(18, 90, 1000), "diagnosis": random.choice(["flu", "asthma", "back pain"], 1000)}
    )
    settings = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
        privacy=crenel.Privacy(k=5, at_most=0.5),
        algorithm=crenel.Castle(crenel.Delay(tuples=200)),
        extensions=[__name__],
    )
    result = crenel.anonymize(visits, settings)
    print(result.summary)
    print("verify:", crenel.verify(result, settings).outcome)


if __name__ == "__main__":
    main()
