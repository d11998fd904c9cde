"""Persons and their companions as they are stored: what changed in a step is one entry, and a later one stands.

==========  ==================  =======================================  ============================================
name        key                 content                                  written
==========  ==================  =======================================  ============================================
companions  number of the step  persons and groups that changed in it    once; what stands of it is written again where
                                                                         that is little; removed when none of it does
companions  ``PASSED``          until when persons were forgotten, and   when it moves
                                how many were ``below``
==========  ==================  =======================================  ============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import arrays_of, pack

VERSION = 1

PASSED = -1
"""The key of an entry of no persons, which tells ``passed`` alone."""


@dataclass(frozen=True)
class AnonymitySets:
    """Persons and groups, one a row.

    Attributes
    ----------
    passed : (2,) event time up to which persons were forgotten; persons so far who were ``below``
    group : (groups,) the release in which the companions left first
    companions : (groups,) how many there are, with those who were forgotten on request; 0: none may leave any more
    struck : (groups,) how many were forgotten on request
    lower, upper : (groups, numeric quasi-identifiers) the generalization under which they leave
    node : (groups, categorical quasi-identifiers) node in each hierarchy
    subject : (persons,) keyed hash
    of : (persons,) the group; -1: a person who has none yet, and of whom what came last does not wait
    core : (persons,) whether the person is a companion, and not a guest
    below : (persons,) whether a tuple left under a generalization in which fewer than k companions lay
    numeric : (persons, numeric quasi-identifiers) the latest values that came
    leaf : (persons, categorical quasi-identifiers) leaf in each hierarchy
    position : (persons,) of the tuple that they came with
    event_time : (persons,) the newest that came
    held : (persons, sensitive) how many values were published
    values : (values,) their codes, as far as they are remembered, person by person and attribute by attribute
    """

    passed: NDArray[np.int64]
    group: NDArray[np.int64]
    companions: NDArray[np.int32]
    struck: NDArray[np.int32]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    subject: NDArray[np.uint64]
    of: NDArray[np.int64]
    core: NDArray[np.bool_]
    below: NDArray[np.bool_]
    numeric: NDArray[np.float64]
    leaf: NDArray[np.int32]
    position: NDArray[np.int64]
    event_time: NDArray[np.int64]
    held: NDArray[np.int8]
    values: NDArray[np.uint64]

    def to_bytes(self) -> bytes:
        return pack("companions", VERSION, vars(self))

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> AnonymitySets:
        """Read a blob; raises ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        return cls(**arrays_of("companions", (field.name for field in fields(cls)), blob, VERSION, where))

    @classmethod
    def joined(cls, entries: Sequence[AnonymitySets]) -> AnonymitySets:
        """All persons and groups of some entries, one entry after another, at least one; ``passed`` of all of them."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(entry, name) for entry in entries]) for name in names})
