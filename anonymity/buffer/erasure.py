"""Selection of the tuples of persons to forget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.policy import Policy


def theirs(policy: Policy, subject: NDArray[np.uint64] | None, persons: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return (tuples,) whether each tuple belongs to one of the given persons.

    Parameters
    ----------
    subject : (tuples,) keyed hashes of the tuples' persons
    persons : (persons,) keyed hashes of the persons to forget

    Raises
    ------
    ValueError
        The policy names no subject.
    """
    if policy.subject is None or subject is None:
        raise ValueError("policy.subject: is missing; nobody can be forgotten who is not known by it")
    return np.isin(subject, persons)
