"""A shard by reference, for compiled functions.

Numba passes a NamedTuple field by field: with all the arrays of a shard, each call would move hundreds of values and
take minutes to compile. ``share`` wraps the same arrays in structures that are passed as one pointer; their fields
have the names, types and meaning of those in ``anonymity.live``.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.experimental import structref

from anonymity.compiled import entry
from anonymity.live import Live


class _Fields(types.StructRef):
    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(typ)) for name, typ in fields)


@structref.register
class _StreamType(_Fields):
    pass


@structref.register
class _DomainType(_Fields):
    pass


@structref.register
class _TuplesType(_Fields):
    pass


@structref.register
class _ClustersType(_Fields):
    pass


@structref.register
class _CountsType(_Fields):
    pass


@structref.register
class _HeapType(_Fields):
    pass


@structref.register
class _OmegaType(_Fields):
    pass


@structref.register
class _OutType(_Fields):
    pass


@structref.register
class _LiveType(_Fields):
    pass


class _Stream(structref.StructRefProxy):
    pass


class _Domain(structref.StructRefProxy):
    pass


class _Tuples(structref.StructRefProxy):
    pass


class _Clusters(structref.StructRefProxy):
    pass


class _Counts(structref.StructRefProxy):
    pass


class _Heap(structref.StructRefProxy):
    pass


class _Omega(structref.StructRefProxy):
    pass


class _Out(structref.StructRefProxy):
    pass


class Shared(structref.StructRefProxy):
    """What ``share`` returns: a shard that compiled functions take as one pointer."""


structref.define_boxing(_StreamType, _Stream)
structref.define_constructor(_Stream, _StreamType, ['key', 'used', 'words'])
structref.define_boxing(_DomainType, _Domain)
structref.define_constructor(_Domain, _DomainType, ['lower', 'upper', 'declared', 'scale', 'parent', 'first', 'last', 'loss', 'root'])
structref.define_boxing(_TuplesType, _Tuples)
structref.define_constructor(_Tuples, _TuplesType, ['numeric', 'leaf', 'subject', 'sensitive', 'event_time', 'position', 'cluster', 'next', 'previous', 'younger', 'older'])
structref.define_boxing(_ClustersType, _Clusters)
structref.define_constructor(_Clusters, _ClustersType, ['rows', 'place', 'box', 'id', 'head', 'tail', 'tuples', 'subjects', 'diversity', 'changed'])
structref.define_boxing(_CountsType, _Counts)
structref.define_constructor(_Counts, _CountsType, ['owner', 'value', 'count'])
structref.define_boxing(_HeapType, _Heap)
structref.define_constructor(_Heap, _HeapType, ['slots', 'at'])
structref.define_boxing(_OmegaType, _Omega)
structref.define_constructor(_Omega, _OmegaType, ['box', 'subjects', 'diversity', 'release', 'matches'])
structref.define_boxing(_OutType, _Out)
structref.define_constructor(_Out, _OutType, ['box', 'kind', 'subjects', 'diversity', 'loss', 'event_time', 'end', 'members', 'suppressed', 'reason'])
structref.define_boxing(_LiveType, Shared)
structref.define_constructor(Shared, _LiveType, ['scalars', 'parameters', 'tau', 'ring', 'random', 'domain', 'tuples', 'clusters', 'counts', 'diversity', 'heap', 'omega', 'out', 'totals', 'loss_total', 'delays'])


@entry
def share(live: Live) -> Shared:
    """The shard by reference. It holds the arrays that ``live`` held when it was called."""
    r, d, t, c, h, o, u = live.random, live.domain, live.tuples, live.clusters, live.heap, live.omega, live.out
    return Shared(
        live.scalars,
        live.parameters,
        live.tau,
        live.ring,
        _Stream(r.key, r.used, r.words),
        _Domain(d.lower, d.upper, d.declared, d.scale, d.parent, d.first, d.last, d.loss, d.root),
        _Tuples(t.numeric, t.leaf, t.subject, t.sensitive, t.event_time, t.position, t.cluster, t.next, t.previous, t.younger, t.older),
        _Clusters(c.rows, c.place, c.box, c.id, c.head, c.tail, c.tuples, c.subjects, c.diversity, c.changed),
        _Counts(live.counts.owner, live.counts.value, live.counts.count),
        live.diversity,
        _Heap(h.slots, h.at),
        _Omega(o.box, o.subjects, o.diversity, o.release, o.matches),
        _Out(u.box, u.kind, u.subjects, u.diversity, u.loss, u.event_time, u.end, u.members, u.suppressed, u.reason),
        live.totals,
        live.loss_total,
        live.delays,
    )
