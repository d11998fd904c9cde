"""Stored anonymity sets and their persons; the latest entry of a person or group is valid.

==============  ==================  =====================================  ==========================================
name            key                 content                                written
==============  ==================  =====================================  ==========================================
anonymity_sets  number of the step  persons and groups that changed in it  once; rewritten when few of its rows are
                                                                           still current; removed when none is
anonymity_sets  ``STATUS_KEY``      time up to which persons expired, and  when it changes
                                    number of persons below k
==============  ==================  =====================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from crenel.state.codec import arrays_of, pack

VERSION = 1

STATUS_KEY = -1
"""Key of an entry without persons, which holds only ``status``."""


@dataclass(frozen=True)
class AnonymitySets:
    """Persons and their groups, one per row; a group is one anonymity set.

    A guest is published under a group's generalization without belonging to its anonymity set.

    Attributes
    ----------
    status : (2,) event time up to which persons expired; number of persons so far with ``is_below_k``
    group : (groups,) id of the first release of the anonymity set
    size : (groups,) size of the anonymity set, including persons forgotten on request; 0: no publication allowed
    forgotten : (groups,) number of persons forgotten on request
    lower, upper : (groups, numeric quasi-identifiers) the group's current generalization
    node : (groups, categorical quasi-identifiers) node in each hierarchy
    subject : (persons,) keyed hash
    person_group : (persons,) the group; -1: a person without a group whose latest tuple is not buffered
    is_member : (persons,) whether the person belongs to the anonymity set, and is not a guest
    is_below_k : (persons,) whether a tuple was published under a generalization that covers fewer than k of the
        anonymity set
    numeric : (persons, numeric quasi-identifiers) latest values
    leaf : (persons, categorical quasi-identifiers) latest leaf in each hierarchy
    position : (persons,) position of the tuple with the latest values
    event_time : (persons,) maximum event time of the person's tuples
    value_count : (persons, sensitive) number of published values
    values : (values,) their codes, as far as they are kept, by person and attribute
    """

    status: NDArray[np.int64]
    group: NDArray[np.int64]
    size: NDArray[np.int32]
    forgotten: NDArray[np.int32]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    subject: NDArray[np.uint64]
    person_group: NDArray[np.int64]
    is_member: NDArray[np.bool_]
    is_below_k: NDArray[np.bool_]
    numeric: NDArray[np.float64]
    leaf: NDArray[np.int32]
    position: NDArray[np.int64]
    event_time: NDArray[np.int64]
    value_count: NDArray[np.int8]
    values: NDArray[np.uint64]

    def to_bytes(self) -> bytes:
        return pack("anonymity_sets", VERSION, vars(self))

    @classmethod
    def from_bytes(cls, blob: bytes, where: str = "") -> AnonymitySets:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        return cls(**arrays_of("anonymity_sets", (field.name for field in fields(cls)), blob, VERSION, where))

    @classmethod
    def joined(cls, entries: Sequence[AnonymitySets]) -> AnonymitySets:
        """Concatenate the persons, groups and ``status`` of at least one entry."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(entry, name) for entry in entries]) for name in names})
