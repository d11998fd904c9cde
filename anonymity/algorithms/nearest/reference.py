"""Pass-by-reference form of nearest release's arrays: see ``crenel.anonymity.compiled.reference``."""

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
"""Return ``NearestArrays`` in their pass-by-reference form, valid while the arrays are kept."""
