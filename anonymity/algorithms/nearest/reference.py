"""A shard of nearest release by reference: see ``crenel.anonymity.compiled.reference``."""

from __future__ import annotations

from numba.experimental import structref

from crenel.anonymity.algorithms.nearest.arrays import NearestArrays
from crenel.anonymity.compiled.reference import Fields, Proxy, by_reference


@structref.register
class _ShardFields(Fields):
    pass


class _Shard(Proxy):
    pass


share = by_reference(NearestArrays, {NearestArrays: (_Shard, _ShardFields)})
"""A function from ``NearestArrays`` to the same by reference, valid while the arrays are kept."""
