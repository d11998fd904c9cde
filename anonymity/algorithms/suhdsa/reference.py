"""Pass-by-reference form of SUHDSA's arrays: see ``crenel.anonymity.compiled.reference``."""

from __future__ import annotations

from numba.experimental import structref

from crenel.anonymity.algorithms.suhdsa.arrays import WindowArrays
from crenel.anonymity.compiled.reference import Fields, Proxy, by_reference


@structref.register
class _ShardFields(Fields):
    pass


class _Shard(Proxy):
    pass


share = by_reference(WindowArrays, {WindowArrays: (_Shard, _ShardFields)})
"""Return ``WindowArrays`` in their pass-by-reference form, valid while the arrays are kept."""
