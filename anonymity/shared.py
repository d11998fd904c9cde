"""A shard by reference, for compiled functions.

Numba passes a NamedTuple field by field: with all the arrays of a shard, each call would move hundreds of values and
take minutes to compile. ``share`` wraps the same arrays in structures that are passed as one pointer; their fields
have the names, types and meaning of those in ``anonymity.live``. The arrays are borrowed, because counting references
to them would take a third of the time: whoever calls ``share`` keeps ``live`` until the compiled function returns.
"""

from __future__ import annotations

from numba.experimental import structref

from anonymity.borrowed import Fields as _Fields
from anonymity.borrowed import borrow as _borrow
from anonymity.borrowed import borrow_boxes as _borrow_boxes
from anonymity.borrowed import define as _define
from anonymity.compiled import entry
from anonymity.counting import Counts
from anonymity.live import Clusters, Domain, Heap, Live, Omega, Out, Sides, Tuples
from anonymity.random import RandomStream


@structref.register
class _StreamType(_Fields):
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


_define(_Stream, _StreamType, RandomStream._fields)
_define(_Tuples, _TuplesType, Tuples._fields)
_define(_Clusters, _ClustersType, Clusters._fields)
_define(_Counts, _CountsType, Counts._fields)
_define(_Heap, _HeapType, Heap._fields)
_define(_Omega, _OmegaType, Omega._fields)
_define(_Out, _OutType, Out._fields)
_define(Shared, _LiveType, Live._fields)


@entry
def share(live: Live) -> Live:
    """The shard by reference, valid while ``live`` is kept: a ``Shared``, whose fields are those of ``Live``."""
    r, d, t, c, n = live.random, live.domain, live.tuples, live.clusters, live.counts
    h, o, u = live.heap, live.omega, live.out
    return Shared(  # type: ignore[return-value]
        _borrow(live.scalars),
        _borrow(live.parameters),
        _borrow(live.tau),
        _borrow(live.ring),
        _Stream(_borrow(r.key), _borrow(r.used), _borrow(r.words)),
        Domain(
            _borrow(d.lower),
            _borrow(d.upper),
            _borrow(d.declared),
            _borrow(d.scale),
            _borrow(d.parent),
            _borrow(d.first),
            _borrow(d.last),
            _borrow(d.loss),
            _borrow(d.root),
        ),
        _Tuples(
            _borrow(t.numeric),
            _borrow(t.leaf),
            _borrow(t.subject),
            _borrow(t.sensitive),
            _borrow(t.event_time),
            _borrow(t.position),
            _borrow(t.cluster),
            _borrow(t.next),
            _borrow(t.previous),
            _borrow(t.younger),
            _borrow(t.older),
        ),
        _Clusters(
            _borrow(c.rows),
            _borrow(c.place),
            _borrow_boxes(c.box),
            Sides(
                _borrow(c.sides.lower),
                _borrow(c.sides.upper),
                _borrow(c.sides.first),
                _borrow(c.sides.last),
                _borrow(c.sides.loss),
                _borrow(c.sides.growth),
                _borrow(c.sides.step),
            ),
            _borrow(c.id),
            _borrow(c.head),
            _borrow(c.tail),
            _borrow(c.tuples),
            _borrow(c.subjects),
            _borrow(c.diversity),
            _borrow(c.changed),
        ),
        _Counts(_borrow(n.owner), _borrow(n.value), _borrow(n.tuples), _borrow(n.used)),
        _borrow(live.diversity),
        _Heap(_borrow(h.slots), _borrow(h.at)),
        _Omega(_borrow_boxes(o.box), _borrow(o.subjects), _borrow(o.diversity), _borrow(o.release), _borrow(o.matches)),
        _Out(
            _borrow_boxes(u.box),
            _borrow(u.kind),
            _borrow(u.subjects),
            _borrow(u.diversity),
            _borrow(u.loss),
            _borrow(u.event_time),
            _borrow(u.end),
            _borrow(u.members),
            _borrow(u.suppressed),
            _borrow(u.reason),
        ),
        _borrow(live.totals),
        _borrow(live.loss_total),
        _borrow(live.delays),
    )
