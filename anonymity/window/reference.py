"""A shard of windows by reference: see ``crenel.anonymity.compiled.reference``."""

from __future__ import annotations

from numba.experimental import structref

from crenel.anonymity.compiled.reference import Fields, Proxy, by_reference
from crenel.anonymity.window.arrays import WindowArrays


@structref.register
class _ShardFields(Fields):
    pass


class _Shard(Proxy):
    pass


share = by_reference(WindowArrays, {WindowArrays: (_Shard, _ShardFields)})
"""A function from ``WindowArrays`` to the same by reference, valid while the arrays are kept."""
