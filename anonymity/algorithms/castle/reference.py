"""Pass-by-reference form of CASTLE's arrays: see ``crenel.anonymity.compiled.reference``."""

from __future__ import annotations

from numba.experimental import structref

from crenel.anonymity.buffer.arrays import CastleArrays, Clusters, Expiry, Omega, Tuples
from crenel.anonymity.buffer.release_buffer import ReleaseBuffer
from crenel.anonymity.compiled.random import CounterRandom, RandomStream
from crenel.anonymity.compiled.reference import Fields, Proxy, by_reference
from crenel.anonymity.noise.release_noise import NoiseArrays
from crenel.anonymity.privacy_models.buffered_values import Waiting
from crenel.anonymity.privacy_models.counting import Counts


@structref.register
class _StreamFields(Fields):
    pass


@structref.register
class _LotsFields(Fields):
    pass


@structref.register
class _TuplesFields(Fields):
    pass


@structref.register
class _ClustersFields(Fields):
    pass


@structref.register
class _CountsFields(Fields):
    pass


@structref.register
class _WaitingFields(Fields):
    pass


@structref.register
class _ExpiryFields(Fields):
    pass


@structref.register
class _OmegaFields(Fields):
    pass


@structref.register
class _OutFields(Fields):
    pass


@structref.register
class _NoiseFields(Fields):
    pass


@structref.register
class _ShardFields(Fields):
    pass


class _Stream(Proxy):
    pass


class _Lots(Proxy):
    pass


class _Tuples(Proxy):
    pass


class _Clusters(Proxy):
    pass


class _Counts(Proxy):
    pass


class _Waiting(Proxy):
    pass


class _Expiry(Proxy):
    pass


class _Omega(Proxy):
    pass


class _Out(Proxy):
    pass


class _Noise(Proxy):
    pass


class _Shard(Proxy):
    pass


share = by_reference(
    CastleArrays,
    {
        RandomStream: (_Stream, _StreamFields),
        CounterRandom: (_Lots, _LotsFields),
        Tuples: (_Tuples, _TuplesFields),
        Clusters: (_Clusters, _ClustersFields),
        Counts: (_Counts, _CountsFields),
        Waiting: (_Waiting, _WaitingFields),
        Expiry: (_Expiry, _ExpiryFields),
        Omega: (_Omega, _OmegaFields),
        ReleaseBuffer: (_Out, _OutFields),
        NoiseArrays: (_Noise, _NoiseFields),
        CastleArrays: (_Shard, _ShardFields),
    },
)
"""Return ``CastleArrays`` in their pass-by-reference form, valid while the arrays are kept."""
